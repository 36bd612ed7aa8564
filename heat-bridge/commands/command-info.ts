/** The public description of a command. */

import type { CompiledCommand } from './command-catalog.ts';
import type { CommandDefinition, JsonSchema } from './command-definition.ts';

/** What is told of a command. */
export interface CommandInfo {
  readonly name: string;
  readonly description: string;
  readonly version: number;
  /** The minion's function, or the state file that is applied. */
  readonly function: string;
  readonly state?: string;
  /** Whether the shipped list has the function, or why somebody exposes it. */
  readonly standing: 'reviewed' | 'unsafe' | 'unknown';
  readonly reviewed?: string;
  readonly parameters: JsonSchema;
  readonly secret: readonly string[];
  readonly within?: string;
  /** Seconds. */
  readonly timeout: number;
  readonly retries: number;
  readonly idempotent: boolean;
  readonly concurrency: NonNullable<CommandDefinition['concurrency']>;
  readonly returns?: JsonSchema;
  readonly deprecated?: string;
}

export function describeCommand({ definition, fun, standing }: CompiledCommand): CommandInfo {
  const { name, description, state, reviewed, within, returns, deprecated } = definition;
  return {
    name,
    description,
    version: definition.version ?? 1,
    function: fun,
    ...(state === undefined ? {} : { state }),
    standing,
    ...(reviewed === undefined ? {} : { reviewed }),
    parameters: definition.parameters ?? { type: 'object', properties: {} },
    secret: definition.secret ?? [],
    ...(within === undefined ? {} : { within }),
    timeout: definition.timeoutSeconds ?? 60,
    retries: definition.retries ?? 0,
    idempotent: definition.idempotent ?? false,
    concurrency: definition.concurrency ?? {},
    ...(returns === undefined ? {} : { returns }),
    ...(deprecated === undefined ? {} : { deprecated }),
  };
}
