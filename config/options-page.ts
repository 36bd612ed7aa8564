/** Generates the table of all options in docs/configuration.md. */

import type { TSchema } from 'typebox';
import type { OptionRow } from './option.ts';
import { optionSections } from './options.ts';
import { expectedBy, fileNameOf, shapeOf } from './schema.ts';

/**
 * Heading with which the generated part of the page begins. The generated part extends to the end
 * of the page.
 */
export const optionsHeading = '## All options';

const introduction = `The table is made from the option rows in \`config/\` by \`node scripts/options-doc.js\`. A new value of an option applies after a restart unless the last column says otherwise. Members of a section stand below it.

| option | value | default | meaning | a reload applies to |
| --- | --- | --- | --- | --- |
`;

/** Returns the generated part of docs/configuration.md. */
export function optionsPage(): string {
  const lines = optionSections.flatMap(({ above, options }) =>
    Object.values(options).flatMap((row) => {
      const name = [...above, row.name].join(':');
      return [lineOf(name, row), ...membersOf(name, row.schema)];
    }),
  );
  return `${optionsHeading}\n\n${introduction}${lines.join('\n')}\n`;
}

function lineOf(name: string, { schema, doc, reload = '', migration, ...row }: OptionRow): string {
  const meaning = [doc, ...(migration === undefined ? [] : [migration])].join(' ');
  const value = row.defaultText ?? defaultIn(row.default);
  return lineWith([`\`${name}\``, valueFormOf(schema), value, meaning, reload]);
}

/** Returns the members of a section whose descriptions belong on this page. */
function membersOf(name: string, schema: TSchema): string[] {
  const { properties = {} } = shapeOf(schema);
  // `rest_cherrypy` and `api` are the same section, so it is described once.
  if (name === 'rest_cherrypy') return [];
  return Object.entries(properties).map(([member, its]) => {
    const { description = '', default: value = null } = shapeOf(its);
    const place = `\`${name}:${fileNameOf(member, its)}\``;
    return lineWith([place, valueFormOf(its), defaultIn(value), description, '']);
  });
}

function lineWith(cells: readonly string[]): string {
  return `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
}

function valueFormOf(schema: TSchema): string {
  const { unit, properties } = shapeOf(schema);
  if (properties !== undefined) return 'a map';
  const expected = expectedBy(schema).replaceAll('*', '\\*');
  return unit === undefined || expected.includes(unit) ? expected : `${expected} (${unit})`;
}

/** Returns a default in the form in which a file contains it. */
function defaultIn(value: unknown): string {
  if (value === null || value === '') return '';
  const isSection = typeof value === 'object' && !Array.isArray(value);
  const isEmpty = typeof value === 'object' && Object.keys(value).length === 0;
  if (isEmpty) return '';
  if (isSection && !('base' in value)) return 'see its members';
  return `\`${typeof value === 'string' ? value : JSON.stringify(value)}\``;
}
