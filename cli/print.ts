import { once } from 'node:events';
import { writeJson } from '../runtime/index.ts';
import type { OutputStream } from './context.ts';
import { escapeJson } from './output/escape.ts';

/** Writes a line and waits while the reader is slower than we are. */
export async function printLine(stream: OutputStream, line: string): Promise<void> {
  if (!stream.write(`${line}\n`)) await once(stream, 'drain');
}

/** Writes one of our own answers (not a minion's value) as JSON. */
export async function printJson(stream: OutputStream, answer: object): Promise<void> {
  await printLine(stream, escapeJson(writeJson(answer, 2)));
}
