/** A folder for PATH with few programs, so that what else is installed makes no difference. */
import { symlinkSync } from 'node:fs';
import path from 'node:path';
import type { ExecutionContext } from 'ava';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';

/** What the scripts of groups need beside their tool. */
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

/** Removed at the end of the test. */
export function folderOfPrograms(t: ExecutionContext): string {
  const folder = temporaryDirectory(t);
  for (const program of programs) symlinkSync(`/bin/${program}`, path.join(folder, program));
  return folder;
}
