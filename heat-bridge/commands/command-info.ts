/** Public description of a command. */

import Type, { type Static } from 'typebox';
import { Texts } from '#store';
import type { CompiledCommand } from './command-catalog.ts';
import type { CommandDefinition, JsonSchema } from './command-definition.ts';

const Text = Type.String();
/** Field of a description that contains a JSON Schema. */
export const SchemaField = Type.Unsafe<JsonSchema>(Type.Unknown());

/** Description of a command for its callers. */
export const CommandSchema = Type.Object({
  name: Text,
  description: Text,
  version: Type.Integer(),
  /** Function that minions execute. For a state file, the function that applies the file. */
  function: Text,
  state: Type.Optional(Text),
  /**
   * Classification of the function. `reviewed`: the function is in saltbridge's list of reviewed
   * functions. `unsafe`: it is in the list of unsafe functions. `unknown`: it is in neither list,
   * but the operator has decided to expose it.
   */
  standing: Type.Enum(['reviewed', 'unsafe', 'unknown']),
  parameters: SchemaField,
  secret: Texts,
  /** Timeout of a run of the command, in seconds. */
  timeout: Type.Number(),
  retries: Type.Integer(),
  idempotent: Type.Boolean(),
  concurrency: Type.Unsafe<NonNullable<CommandDefinition['concurrency']>>(Type.Object({})),
  returns: Type.Optional(SchemaField),
  deprecated: Type.Optional(Text),
});

/** Description of a command; {@link CommandSchema} documents its fields. */
export type CommandInfo = Readonly<Static<typeof CommandSchema>> & {
  /** Reason why an operator exposes the function. */
  readonly reviewed?: string;
  /** Compound target. Runs on minions that do not match it are rejected. */
  readonly within?: string;
};

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

/**
 * Returns the description of a command, without the fields `within` and `reviewed`, which are for
 * the operator.
 */
export function publicCommandInfo({
  within: _within,
  reviewed: _reviewed,
  ...info
}: CommandInfo): Omit<CommandInfo, 'reviewed' | 'within'> {
  return info;
}
