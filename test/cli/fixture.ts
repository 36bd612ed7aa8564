import { readFileSync } from 'node:fs';

/** The cases of a file in test/fixtures/cli. `T` is their shape, as record.py writes it. */
export function readCases<T>(name: string): T[] {
  const file = new URL(`../../test/fixtures/cli/${name}`, import.meta.url);
  return JSON.parse(readFileSync(file, 'utf8')).cases;
}
