import { readFileSync } from 'node:fs';

/** The library that holds the files of an embedded store, for instance `lmdb 3.5.6`. */
export function engineVersion(): string {
  const file = new URL('package.json', import.meta.resolve('lmdb'));
  const { version }: { version: string } = JSON.parse(readFileSync(file, 'utf8'));
  return `lmdb ${version}`;
}
