/** Generates the table of all options in docs/configuration.md. */

import type { TSchema } from 'typebox';
import type { OptionRow } from './option.ts';
import { optionSections } from './options.ts';
import { expectedBy, fileNameOf, shapeOf } from './schema.ts';

/**
 * First heading of the generated part of the page. The generated part extends to the end of the
 * page.
 */
export const optionsHeading = '## All options';

const introduction =
  'The script `node scripts/options-doc.js` generates the tables of options from the option rows in `config/`. If you change an option, restart the master, unless the last column names another time at which the new value applies.';

const tableHead = `| option | value | default | meaning | a reload applies to |
| --- | --- | --- | --- | --- |
`;

/** Headings of the tables, by the name of the first option of each table. */
const headings: ReadonlyMap<string, string> = new Map([
  ['interface', 'Ports and transports'],
  ['id', 'Identity, account and paths'],
  ['keysize', 'Keys of the master'],
  ['auto_accept', 'Acceptance of minions'],
  ['minimum_auth_version', 'Protocol and signatures'],
  ['zmq_filtering', 'Connections'],
  ['timeout', 'Jobs, events and targets'],
  ['file_roots', 'Pillar'],
  ['file_ignore_glob', 'Sources of files'],
  ['gitfs_remotes', 'Git repositories'],
  ['fileserver_followsymlinks', 'File server'],
  ['top_file_merging_strategy', 'States and templates'],
  ['enforce_mine_cache', 'Mine, peers, reactor and schedule'],
  ['rest_cherrypy', "Salt's HTTP API"],
  ['log_level', 'Log'],
  ['output', 'Output of commands'],
  ['publisher_acl', 'Rights of users'],
  ['token_expire', 'Tokens and log-ins'],
  ['auth.pam.service', 'Authentication services'],
  ['saltbridge:state_dir', 'Paths of saltbridge'],
  ['saltbridge:api', 'HTTP API'],
  ['saltbridge:event_ring', 'Event ring, audit log and event export'],
  ['saltbridge:git', 'Limits of git and HTTP requests'],
  ['saltbridge:bridge', 'Bridge'],
  ['saltbridge:cluster', 'Cluster'],
  ['saltbridge:minion_ids', 'Minions, restarts and confirmations'],
  ['saltbridge:reactions', 'Reactions'],
  ['saltbridge:relay', 'Relays'],
  ['saltbridge:limits:requests_per_second', 'Limits'],
  ['saltbridge:acl:signals', 'Policy'],
]);

/** Returns the generated part of docs/configuration.md. */
export function optionsPage(): string {
  const parts = optionSections.flatMap(({ above, options }) =>
    Object.values(options).map((row) => {
      const name = [...above, row.name].join(':');
      const heading = headings.get(name);
      const head = heading === undefined ? '' : `\n### ${heading}\n\n${tableHead}`;
      return `${head}${[lineOf(name, row), ...membersOf(name, row.schema)].join('\n')}\n`;
    }),
  );
  return `${optionsHeading}\n\n${introduction}\n${parts.join('')}`;
}

function lineOf(name: string, { schema, doc, reload = '', migration, ...row }: OptionRow): string {
  const meaning = [doc, ...(migration === undefined ? [] : [migration])].join(' ');
  const value = row.defaultText ?? defaultIn(row.default);
  return lineWith([`\`${name}\``, valueFormOf(schema), value, meaning, reload]);
}

/** Returns the members of a section that this page describes. */
function membersOf(name: string, schema: TSchema): string[] {
  const { properties = {} } = shapeOf(schema);
  // `rest_cherrypy` and `api` are the same section, so it is described once.
  if (name === 'rest_cherrypy') return [];
  return Object.entries(properties).map(([member, its]) => {
    const { default: value = null } = shapeOf(its);
    const place = `\`${name}:${fileNameOf(member, its)}\``;
    return lineWith([place, valueFormOf(its), defaultIn(value), descriptionOf(its), '']);
  });
}

/** Returns the description of a schema, or of its first alternative that has one. */
function descriptionOf(schema: TSchema): string {
  const { description, anyOf = [], inFiles } = shapeOf(schema);
  const alternatives = inFiles === undefined ? anyOf : [...anyOf, inFiles];
  return description ?? alternatives.map(descriptionOf).find((text) => text !== '') ?? '';
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

/** Formats the default value of an option as it would be written in a configuration file. */
function defaultIn(value: unknown): string {
  if (value === null || value === '') return '';
  const isSection = typeof value === 'object' && !Array.isArray(value);
  const isEmpty = typeof value === 'object' && Object.keys(value).length === 0;
  if (isEmpty) return '';
  if (isSection && !('base' in value)) return 'see its members';
  return `\`${typeof value === 'string' ? value : JSON.stringify(value)}\``;
}
