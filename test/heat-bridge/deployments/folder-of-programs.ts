/**
 * Creates a directory for PATH that contains only a few programs, so that other installed programs
 * do not affect a test.
 */
import { symlinkSync } from 'node:fs';
import path from 'node:path';
import type { ExecutionContext } from 'ava';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';

/** Programs that scripts of groups need besides their tool. */
const programs = [
  'base64',
  'cat',
  'chmod',
  'cut',
  'env',
  'grep',
  'head',
  'mkdir',
  'mktemp',
  'mv',
  'od',
  'rm',
  'sed',
  'sh',
  'tail',
  'tr',
  'wc',
];

/** Creates the directory. It is removed at the end of the test. */
export function folderOfPrograms(t: ExecutionContext): string {
  const folder = temporaryDirectory(t);
  for (const program of programs) symlinkSync(`/bin/${program}`, path.join(folder, program));
  return folder;
}
