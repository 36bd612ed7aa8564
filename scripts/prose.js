// Checks the English of comments, test titles and documents: `node scripts/prose.js`. A doc comment begins
// with a noun or a verb and separates the names of parameters by a hyphen, a test title begins with its
// subject, and no text uses the words listed here. Exits with status 1 and prints each place otherwise.
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));

/** Words that begin a relative clause or leave the subject out. */
const inverted =
  /^(?:What|Of|That|Where|How|When|Who|Whom|Whose|Those|From|Nobody|Somebody|As|By|Told|Which|Why|Whoever|Whatever|Its|None)\b/;
const invertedTitle = /^(?:what|who|whoever|of|those|where|that|how)\b/i;
/** Idioms, each with the usual words for it. */
const idioms = [
  [/\b(?:tells?|told|telling)\b/gi, 'report, send, notify'],
  [/\b(?:nobody|whoever|whom)\b/gi, 'no client, each caller, the minion that'],
  [/\b(?:goes on|went on)\b/gi, 'continues'],
  [/\bis let\b/gi, 'may'],
  [/\bheld off\b/gi, 'rejected, delayed'],
  [/\blies\b/gi, 'is stored'],
  [/\b(?:became of|of it is)\b/gi, 'the result of'],
  [/\banother one than\b/gi, 'a different … than'],
];
/** Places where a listed word is right, with the reason. */
const exceptions = new Set([]);

const files = execFileSync('git', ['ls-files', '*.ts', '*.js', '*.md'], {
  cwd: root,
  encoding: 'utf8',
})
  .split('\n')
  .filter((file) => file !== '' && file !== 'scripts/prose.js' && existsSync(path.join(root, file)))
  .filter((file) => !/^(?:test\/(?:fixtures|.*snapshots)|docs\/(?:api|reports))\//.test(file));

const found = [];

/** Notes a fault of a text that begins at `index` of its file. */
function note(file, source, index, fault) {
  const line = source.slice(0, index).split('\n').length;
  if (!exceptions.has(`${file}: ${fault}`)) found.push(`${file}:${line}: ${fault}`);
}

function checkWords(file, source, index, text) {
  for (const [words, instead] of idioms) {
    for (const match of text.matchAll(words)) {
      note(file, source, index + match.index, `"${match[0]}": write for example: ${instead}`);
    }
  }
}

/** Comments as text of the same length, so that positions stay right. */
function bodyOf(comment) {
  return comment.replaceAll(/^\s*(?:\/\*\*?|\*\/|\*|\/\/)/gm, (mark) => ' '.repeat(mark.length));
}

function checkSource(file, source) {
  for (const { 0: comment, index } of source.matchAll(/\/\*\*[\s\S]*?\*\/|^[ \t]*\/\/ .*$/gm)) {
    const text = bodyOf(comment).replaceAll(/`[^`]*`/g, (code) => 'x'.repeat(code.length));
    const [opening = ''] = inverted.exec(text.trim()) ?? [];
    if (comment.startsWith('/**') && opening !== '') {
      note(file, source, index, `doc comment begins with "${opening}"`);
    }
    if (/@param \w+ (?!- )/.test(comment))
      note(file, source, index, '@param needs " - " after the name');
    checkWords(file, source, index, text);
  }
  if (!file.includes('.test.')) return;
  for (const { 1: title, index } of source.matchAll(/\btest(?:\.\w+)?\(\s*(['"`].*)/g)) {
    const [opening = ''] = invertedTitle.exec(title.slice(1)) ?? [];
    if (opening !== '') note(file, source, index, `test title begins with "${opening}"`);
  }
}

function checkDocument(file, source) {
  const blank = (text) => text.replaceAll(/[^\n]/g, ' ');
  const text = source.replaceAll(/^```[\s\S]*?^```$/gm, blank).replaceAll(/`[^`]*`/g, blank);
  checkWords(file, source, 0, text);
}

for (const file of files) {
  const source = readFileSync(path.join(root, file), 'utf8');
  if (file.endsWith('.md')) checkDocument(file, source);
  else checkSource(file, source);
}
for (const line of found) process.stdout.write(`${line}\n`);
process.exitCode = found.length === 0 ? 0 : 1;
