/** Finds the code blocks in the documents, and what the surrounding text says about them. */

import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

/** Path of the checkout. */
export const root: string = fileURLToPath(new URL('../../', import.meta.url));

/** A fenced code block. */
export interface CodeBlock {
  readonly document: string;
  /** Line number of the block's first line in the document, from 1. */
  readonly line: number;
  readonly language: string;
  readonly text: string;
  /** File name in backquotes with which the paragraph before the block begins. */
  readonly file: string | undefined;
  /** Reason why no test runs the block, from the first line: ```` ```sh not run by a test: … ````. */
  readonly notRun: string | undefined;
  /**
   * Test that runs the block if the required programs are installed, from the first line:
   * ```` ```sh run by FILE ````.
   */
  readonly runBy: string | undefined;
}

/** Returns the paths of all documents, except the generated API reference and the reports. */
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

/** Returns the code blocks of a document in order. */
export function codeBlocks(document: string): CodeBlock[] {
  const text = readFileSync(`${root}${document}`, 'utf8');
  return [...text.matchAll(/^```(\w*)(?: ([^\n]+))?\n(.*?)^```$/gms)].map(
    ({ index, 1: language = '', 2: note = '', 3: body = '' }) => {
      const before = text.slice(0, index).trimEnd();
      const paragraph = before.split(/\n\n/).at(-1) ?? '';
      return {
        document,
        line: text.slice(0, index).split('\n').length + 1,
        language,
        text: body,
        file: /^(?:The file )?`([\w./-]+)`/.exec(paragraph)?.[1],
        notRun: /^not run by a test: (.+)$/.exec(note)?.[1],
        runBy: /^run by (\S+)$/.exec(note)?.[1],
      };
    },
  );
}

/** Whether a block contains commands for a shell. */
export function isCommandBlock({ language }: CodeBlock): boolean {
  return ['', 'sh', 'bash', 'console', 'shell'].includes(language);
}

/**
 * Returns the blocks that a test must run according to the documents.
 * @param test - path of the test file below the checkout
 * @param document - path of a document; default: all documents
 */
export function blocksRunBy(test: string, document?: string): CodeBlock[] {
  const all = document === undefined ? documents() : [document];
  return all.flatMap(codeBlocks).filter(({ runBy }) => runBy === test);
}

/** Returns the commands in a block, one per line, without output that is shown after a prompt. */
export function linesOf({ text }: Pick<CodeBlock, 'text'>): string[] {
  const lines = text
    .replaceAll(/\\\n\s*/g, '')
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'));
  const prompted = lines.filter((line) => line.startsWith('$ ')).map((line) => line.slice(2));
  return prompted.length > 0 ? prompted : lines;
}

/** Commands that every shell has. */
const ofEveryShell: ReadonlySet<string> = new Set(
  'cat cd chmod echo exit export kill mkdir set sleep sudo umask wait'.split(' '),
);

/** Returns the programs that a block calls, except those that every shell has. */
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

/** A link to another file or to a heading. */
export interface RelativeLink {
  readonly document: string;
  /** The link as written. */
  readonly link: string;
  /** Path of the target below the checkout. For `#heading`, the document itself. */
  readonly target: string;
  readonly anchor: string | undefined;
}

/** Returns the links of a document to files within the checkout. */
export function relativeLinks(document: string): RelativeLink[] {
  const text = withoutBlocks(document).replaceAll(/`[^`\n]*`/g, '');
  const links = text.matchAll(/\]\((?!https?:|mailto:)([^)\s]+)\)/g);
  return Array.from(links, ([, link = '']) => {
    const [name = '', anchor] = link.split('#');
    const target = name === '' ? document : path.join(path.dirname(document), name);
    return { document, link, target: target.replace(/\/$/, ''), anchor };
  });
}

/** Returns the anchors of a document's headings, as GitHub derives them from the text. */
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
