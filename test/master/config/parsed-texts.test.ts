import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test from 'ava';
import { checkMasterConfig } from '#config';
import { parsedOnce } from '#config/parsed-texts.ts';
import { parseConfigFile } from '#config/read-files.ts';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';

/** Text of a policy that is large enough to be kept. */
function policy(action: string): string {
  let text = 'file_roots: {base: [/srv/a, /srv/b]}\nsaltbridge:\n  acl:\n    rules:\n';
  for (let index = 0; index < 300; index += 1) {
    text += `      rule ${index}:\n        subject: { minion: "n${index}-*" }\n        action: ${action}\n`;
    text += `        resource: { fun: "app${index}.restart" }\n`;
  }
  return text;
}

test('a large text is parsed once, and readers share nothing that can change', (t) => {
  const text = policy('publish');
  let count = 0;
  const read = (file: string): ReturnType<typeof parseConfigFile> =>
    parsedOnce(text, file, (given, name) => {
      count += 1;
      return parseConfigFile(given, name);
    });
  const expected = parseConfigFile(text, '/second/master');
  const first = read('/first/master');
  const roots = first.get('file_roots')?.value;
  if (!(roots instanceof Map)) throw new Error('no roots');
  roots.get('base').value.push('/srv/c');
  roots.get('base').entries.pop();
  first.delete('saltbridge');
  t.deepEqual(read('/second/master'), expected);
  t.is(count, 1);
});

test('a text that differs is parsed, and a mistake is reported each time', (t) => {
  const text = policy('publish');
  const parse = (given: string): unknown => parsedOnce(given, '/etc/salt/master', parseConfigFile);
  t.notDeepEqual(parse(text), parse(policy('runner')));
  for (const _ of [1, 2]) t.throws(() => parse(`${text}bad: [`), { code: 'ERR_CONFIG_SYNTAX' });
});

test('mistakes name the file that was read', async (t) => {
  const directories = [temporaryDirectory(t), temporaryDirectory(t)];
  for (const directory of directories) {
    mkdirSync(directory, { recursive: true });
    writeFileSync(path.join(directory, 'master'), `${policy('fly')}`);
    const { problems } = await checkMasterConfig(directory);
    t.true(problems.length > 0);
    t.true(problems.every(({ file }) => file === path.join(directory, 'master')));
  }
});
