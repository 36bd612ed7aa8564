// Writes the table of all options in docs/configuration.md from the option rows of the sources.
// With --check, the script only compares the table.
import { readFileSync, writeFileSync } from 'node:fs';
import { optionsHeading, optionsPage } from '#config';

const file = new URL('../docs/configuration.md', import.meta.url);
const before = readFileSync(file, 'utf8');
const start = before.indexOf(optionsHeading);
const page = (start === -1 ? `${before.trimEnd()}\n\n` : before.slice(0, start)) + optionsPage();
if (!process.argv.includes('--check')) writeFileSync(file, page);
else if (before !== page) {
  process.stderr.write('docs/configuration.md is out of date: run node scripts/options-doc.js\n');
  process.exitCode = 1;
}
