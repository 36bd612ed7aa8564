/** The public description of a command. */

import Type, { type Static } from 'typebox';
import { Texts } from '#store';
import type { CompiledCommand } from './command-catalog.ts';
import type { CommandDefinition, JsonSchema } from './command-definition.ts';

const Text = Type.String();
/** A JSON Schema. */
export const SchemaField = Type.Unsafe<JsonSchema>(Type.Unknown());

/** Description of a command for those who may call it. */
export const CommandSchema = Type.Object({
  name: Text,
  description: Text,
  version: Type.Integer(),
  /** The minion's function, or the state file that is applied. */
  function: Text,
  state: Type.Optional(Text),
  /** Whether the shipped list has the function, or why an operator exposes it. */
  standing: Type.Enum(['reviewed', 'unsafe', 'unknown']),
  parameters: SchemaField,
  secret: Texts,
  /** Seconds. */
  timeout: Type.Number(),
  retries: Type.Integer(),
  idempotent: Type.Boolean(),
  concurrency: Type.Unsafe<NonNullable<CommandDefinition['concurrency']>>(Type.Object({})),
  returns: Type.Optional(SchemaField),
  deprecated: Type.Optional(Text),
});

/** Description of a command; {@link CommandSchema} documents its fields. */
export type CommandInfo = Readonly<Static<typeof CommandSchema>> & {
  /** Reason for which an operator exposes the function. */
  readonly reviewed?: string;
  /** Target beyond which the command is refused. */
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
