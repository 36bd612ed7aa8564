import { readFileSync } from 'node:fs';

/** Returns the cases in a file of test/fixtures/cli. `T` is the type that record.py writes. */
export function readCases<T>(name: string): T[] {
  const file = new URL(`../../test/fixtures/cli/${name}`, import.meta.url);
  return JSON.parse(readFileSync(file, 'utf8')).cases;
}
