// Writes the table of all options in docs/configuration.md from the option rows of the sources.
// With --check, the script only compares the table.
import { optionsHeading, optionsPage } from '#config';
import { updatePage } from './generated-page.ts';

updatePage('docs/configuration.md', (page) => {
  const start = page.indexOf(optionsHeading);
  return (start === -1 ? `${page.trimEnd()}\n\n` : page.slice(0, start)) + optionsPage();
});
