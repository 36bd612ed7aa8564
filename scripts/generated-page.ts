// Writes generated pages of docs/, or compares them if the command line has --check.
import { readFileSync, writeFileSync } from 'node:fs';

const root = new URL('../', import.meta.url);

/** Returns a table in Markdown. */
export function tableOf(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [head, head.map(() => '---'), ...rows];
  return lines.map((cells) => `| ${cells.join(' | ')} |\n`).join('');
}

/**
 * Replaces the text of a page. With --check, compares the texts instead, and ends the process with
 * status 1 if they differ.
 * @param page - path of the page in the repository
 * @param make - returns the new text
 */
export function updatePage(page: string, make: (text: string) => string): void {
  const file = new URL(page, root);
  const before = readFileSync(file, 'utf8');
  const text = make(before);
  if (!process.argv.includes('--check')) writeFileSync(file, text);
  else if (before !== text) {
    process.stderr.write(`${page} is out of date: run npm run docs\n`);
    process.exitCode = 1;
  }
}
