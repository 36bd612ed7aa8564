/** The catalog as TypeScript declarations. */

import type { CommandInfo } from '../commands/command-info.ts';
import { givenGroups, type PlanInfo } from '../plans/plan-info.ts';
import { typeOf } from './catalog-docs.ts';

/** A `.d.ts` with the types of all parameters and groups, for `Bridge<Commands, Plans>`. */
export function catalogAsTypes(
  commands: readonly CommandInfo[],
  plans: readonly PlanInfo[] = [],
): string {
  const members = commands.map(
    (info) => `${head(info)}{ readonly params: ${typeOf(info.parameters)} };`,
  );
  const planned = plans.map((info) => {
    const groups = givenGroups(info).map((it) => JSON.stringify(it));
    const params = typeOf(info.parameters);
    return `${head(info)}{ readonly params: ${params}; readonly groups: ${groups.join(' | ')} };`;
  });
  const parts = [interfaceOf('Commands', members)];
  if (plans.length > 0) parts.push(interfaceOf('Plans', planned));
  return `/** Made by \`saltbridge bridge types\`. */\n${parts.join('\n')}`;
}

function interfaceOf(name: string, members: readonly string[]): string {
  return `export interface ${name} {\n${members.join('\n')}\n}\n`;
}

function head({
  name,
  description,
  deprecated,
}: Pick<CommandInfo, 'name' | 'description' | 'deprecated'>): string {
  const note = deprecated === undefined ? '' : ` @deprecated ${deprecated}`;
  const text = `${description}${note}`.replaceAll('*/', '* /').replaceAll(/\s+/g, ' ');
  return `  /** ${text} */\n  readonly '${name}': `;
}
