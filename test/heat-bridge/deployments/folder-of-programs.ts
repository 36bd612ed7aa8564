/**
 * Creates a folder for PATH with only a few programs, so that other installed programs have no
 * effect.
 */
import { symlinkSync } from 'node:fs';
import path from 'node:path';
import type { ExecutionContext } from 'ava';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';

/** Programs that the scripts of config groups need besides their own tool. */
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

/** Creates the folder. It is removed at the end of the test. */
export function folderOfPrograms(t: ExecutionContext): string {
  const folder = temporaryDirectory(t);
  for (const program of programs) symlinkSync(`/bin/${program}`, path.join(folder, program));
  return folder;
}
