/** Blocks of code in the documents, with what the text says of them. */

import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** The checkout. */
export const root: string = fileURLToPath(new URL('../../../', import.meta.url));

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
}

/** Every document that is for people. */
export function documents(): string[] {
  const docs = readdirSync(`${root}docs`).filter((name) => name.endsWith('.md'));
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
      };
    },
  );
}

/** Blocks that somebody types. */
export function isCommandBlock({ language }: CodeBlock): boolean {
  return ['', 'sh', 'bash', 'console', 'shell'].includes(language);
}
