/** Blocks of code in the documents, with what the text says of them. */

import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

/** The checkout. */
export const root: string = fileURLToPath(new URL('../../', import.meta.url));

/** A fenced block. */
export interface CodeBlock {
  readonly document: string;
  /** Of its first line within; 1 is the first of the document. */
  readonly line: number;
  readonly language: string;
  readonly text: string;
  /** The file that the paragraph before it begins with, in backquotes. */
  readonly file: string | undefined;
  /** Why no test runs it: `<!-- not run by a test: … -->` before it. */
  readonly notRun: string | undefined;
  /** The test that runs it where what it needs is there: `<!-- run by FILE -->` before it. */
  readonly runBy: string | undefined;
}

/** Returns every document for people, without the generated API reference and reports. */
export function documents(): string[] {
  const docs = readdirSync(`${root}docs`, { recursive: true, encoding: 'utf8' }).filter(
    (name) => name.endsWith('.md') && !/^(api|reports)\b/.test(name),
  );
  return [
    'README.md',
    'CONTRIBUTING.md',
    'SECURITY.md',
    'packaging/README.md',
    ...docs.map((name) => `docs/${name}`),
  ];
}

/** The blocks of a document, in its order. */
export function codeBlocks(document: string): CodeBlock[] {
  const text = readFileSync(`${root}${document}`, 'utf8');
  return [...text.matchAll(/^```(\w*)\n(.*?)^```$/gms)].map(
    ({ index, 1: language = '', 2: body = '' }) => {
      const before = text.slice(0, index).trimEnd();
      const paragraph = before.split(/\n\n/).at(-1) ?? '';
      return {
        document,
        line: text.slice(0, index).split('\n').length + 1,
        language,
        text: body,
        file: /^`([\w./-]+)`/.exec(paragraph)?.[1],
        notRun: /^<!-- not run by a test: (.+) -->$/s.exec(paragraph)?.[1],
        runBy: /^<!-- run by (\S+) -->$/.exec(paragraph)?.[1],
      };
    },
  );
}

/** Blocks that somebody types. */
export function isCommandBlock({ language }: CodeBlock): boolean {
  return ['', 'sh', 'bash', 'console', 'shell'].includes(language);
}

/**
 * The blocks that a test runs because the documents say so.
 * @param test - its file, below the checkout
 * @param document - of which. Default: of all
 */
export function blocksRunBy(test: string, document?: string): CodeBlock[] {
  const all = document === undefined ? documents() : [document];
  return all.flatMap(codeBlocks).filter(({ runBy }) => runBy === test);
}

/** What is typed, without the output that is shown beside a prompt; a command is one line. */
export function linesOf({ text }: Pick<CodeBlock, 'text'>): string[] {
  const lines = text
    .replaceAll(/\\\n\s*/g, '')
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'));
  const prompted = lines.filter((line) => line.startsWith('$ ')).map((line) => line.slice(2));
  return prompted.length > 0 ? prompted : lines;
}

/** What every shell has. */
const ofEveryShell: ReadonlySet<string> = new Set(
  'cat cd chmod echo exit export kill mkdir set sleep sudo umask wait'.split(' '),
);

/** The programs of a block, without those that every shell has. */
export function programsOf(block: Pick<CodeBlock, 'text'>): string[] {
  const commands = linesOf(block)
    .map((line) => line.replaceAll(/'[^']*'|"[^"]*"|\d>&\d/g, 'text').replace(/\s#.*$/, ''))
    .flatMap((line) => line.split(/&&|\|\||[|;&]/));
  return commands.flatMap((command) => {
    const words = command.trim().split(/\s+/);
    const program = words.find((word) => !/^\w+=|^sudo$/.test(word)) ?? '';
    return program === '' || ofEveryShell.has(program) ? [] : [program];
  });
}

/** A link to another file, or to a heading. */
export interface RelativeLink {
  readonly document: string;
  /** As it is written. */
  readonly link: string;
  /** Below the checkout; the document itself for `#heading`. */
  readonly target: string;
  readonly anchor: string | undefined;
}

/** The links of a document within the checkout. */
export function relativeLinks(document: string): RelativeLink[] {
  const text = withoutBlocks(document).replaceAll(/`[^`\n]*`/g, '');
  const links = text.matchAll(/\]\((?!https?:|mailto:)([^)\s]+)\)/g);
  return Array.from(links, ([, link = '']) => {
    const [name = '', anchor] = link.split('#');
    const target = name === '' ? document : path.join(path.dirname(document), name);
    return { document, link, target: target.replace(/\/$/, ''), anchor };
  });
}

/** What links to headings of a document say, as GitHub makes it of their text. */
export function anchorsOf(document: string): ReadonlySet<string> {
  const headings = withoutBlocks(document).matchAll(/^#+ (.+)$/gm);
  return new Set(
    Array.from(headings, ([, text = '']) =>
      text
        .trim()
        .toLowerCase()
        .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
        .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
        .replaceAll(' ', '-'),
    ),
  );
}

function withoutBlocks(document: string): string {
  return readFileSync(`${root}${document}`, 'utf8').replaceAll(/^```.*?^```$/gms, '');
}
