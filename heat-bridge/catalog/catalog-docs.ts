/** Formats a catalog as Markdown. */

import { isPlainMap, type JsonSchema } from '../commands/command-definition.ts';
import type { CommandInfo } from '../commands/command-info.ts';
import { givenGroups, type PlanInfo } from '../plans/plan-info.ts';

/** Returns Markdown with a section for each command and plan, and a table of its parameters. */
export function catalogAsMarkdown(
  commands: readonly CommandInfo[],
  plans: readonly PlanInfo[] = [],
): string {
  const planned = plans.length === 0 ? [] : ['# Plans', ...plans.map(planSectionOf)];
  return `${['# Commands', ...commands.map(sectionOf), ...planned].join('\n\n')}\n`;
}

function planSectionOf(info: PlanInfo): string {
  const { name, description, version, deprecated, timeout, groups, steps } = info;
  const given = givenGroups(info).map((group) => {
    const { description: text, min = 1, max = '' } = groups[group] ?? {};
    return `| \`${group}\` | ${min} | ${max} | ${cell(text ?? '')} |`;
  });
  const listed = steps.map(({ name: step, command, group, needs, undo }) => {
    const after = needs.length === 0 ? '' : `, after ${needs.join(', ')}`;
    const back = undo === undefined ? '' : `; undone by \`${undo}\``;
    return `- ${step}: \`${command}\` on ${group}${after}${back}`;
  });
  const parts = [
    `## \`${name}\``,
    ...(deprecated === undefined ? [] : [`**Deprecated:** ${deprecated}`]),
    description,
    `Version ${version}. Its steps time out after ${timeout} s.`,
    ['| group | least | most | meaning |', '| --- | --- | --- | --- |', ...given].join('\n'),
    tableOf(info),
    listed.join('\n'),
  ];
  return parts.join('\n\n');
}

function sectionOf(info: CommandInfo): string {
  const { name, description, version, deprecated, within, timeout, idempotent, retries } = info;
  const facts = [
    `Version ${version}.`,
    `Times out after ${timeout} s.`,
    idempotent ? `Idempotent; retried ${retries} times.` : '',
    within === undefined ? '' : `Only for minions of \`${within}\`.`,
  ].filter((fact) => fact !== '');
  const parts = [
    `## \`${name}\``,
    ...(deprecated === undefined ? [] : [`**Deprecated:** ${deprecated}`]),
    description,
    facts.join(' '),
    tableOf(info),
    ...(info.returns === undefined ? [] : [`Each minion returns: \`${typeOf(info.returns)}\``]),
  ];
  return parts.join('\n\n');
}

function tableOf({ parameters, secret }: Pick<CommandInfo, 'parameters' | 'secret'>): string {
  const properties = isPlainMap(parameters.properties) ? Object.entries(parameters.properties) : [];
  if (properties.length === 0) return 'It has no parameters.';
  const required = Array.isArray(parameters.required) ? parameters.required : [];
  const rows = properties.map(([name, schema]) => {
    const needed = required.includes(name) ? 'yes' : 'no';
    const text =
      isPlainMap(schema) && typeof schema.description === 'string' ? schema.description : '';
    const meaning = secret.includes(name) ? `${text} (secret)`.trim() : text;
    return `| \`${name}\` | \`${cell(typeOf(schema))}\` | ${needed} | ${cell(meaning)} |`;
  });
  return ['| parameter | type | needed | meaning |', '| --- | --- | --- | --- |', ...rows].join(
    '\n',
  );
}

function cell(text: string): string {
  return text.replaceAll('|', '\\|').replaceAll('\n', ' ');
}

/** Returns the TypeScript type of a schema. */
export function typeOf(schema: unknown): string {
  if (!isPlainMap(schema)) return 'unknown';
  if (Array.isArray(schema.enum)) return schema.enum.map((it) => JSON.stringify(it)).join(' | ');
  if ('const' in schema) return JSON.stringify(schema.const);
  const types = [schema.type ?? 'unknown'].flat().map((type) => typeNamed(String(type), schema));
  return types.join(' | ');
}

function typeNamed(type: string, schema: JsonSchema): string {
  switch (type) {
    case 'integer':
      return 'number';
    case 'array':
      return `readonly (${typeOf(schema.items)})[]`;
    case 'object':
      return objectType(schema);
    case 'string':
    case 'number':
    case 'boolean':
    case 'null':
      return type;
    default:
      return 'unknown';
  }
}

function objectType({ properties, required }: JsonSchema): string {
  if (!isPlainMap(properties)) return 'Readonly<Record<string, unknown>>';
  const needed = Array.isArray(required) ? required : [];
  const members = Object.entries(properties).map(([name, schema]) => {
    const isNeeded = needed.includes(name) && !(isPlainMap(schema) && 'default' in schema);
    return `readonly ${name}${isNeeded ? '' : '?'}: ${typeOf(schema)};`;
  });
  return members.length === 0 ? 'Record<string, never>' : `{ ${members.join(' ')} }`;
}
