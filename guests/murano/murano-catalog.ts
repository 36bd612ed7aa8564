/** Catalog of the entry points that execution plans may call: `murano:` in catalog files. */

import { hash } from 'node:crypto';
import Type from 'typebox';
import {
  type Catalog,
  type CatalogEntryKind,
  catalogError,
  checkCatalogEntry,
  isPlainMap,
} from '#heat-bridge';
import { compileSchema } from '#runtime';
import { ExecutionPlanError, errorCodes, type ScriptCall } from './execution-plan.ts';

/** Entry point, and the command of the catalog that runs for this entry point. */
export interface MuranoDefinition {
  readonly name: string;
  readonly description: string;
  readonly type: 'Application' | 'Chef' | 'Puppet';
  /**
   * Entry point as the execution plan names it. For the type `Application`, the name of a file. For
   * Chef, `cookbook::recipe`.
   */
  readonly entry_point: string;
  /** Name of a command of the catalog. */
  readonly command: string;
  /** Name of the command's parameter to which the argument of the script call is passed. */
  readonly argument?: string;
  /**
   * SHA-256 hashes of the permitted files, in hex. A call of a file with another hash is rejected.
   * The file itself is never executed. Default: the file is not checked.
   */
  readonly sha256?: readonly string[];
}

const Words = Type.String({ minLength: 1, maxLength: 4096 });
const Body = Type.Object(
  {
    description: Words,
    type: Type.Union(['Application', 'Chef', 'Puppet'].map((it) => Type.Literal(it))),
    entry_point: Words,
    command: Words,
    argument: Type.Optional(Words),
    sha256: Type.Optional(
      Type.Array(Type.String({ pattern: '^[0-9a-f]{64}$' }), { minItems: 1, maxItems: 1000 }),
    ),
  },
  { additionalProperties: false },
);
const isBody = compileSchema(Body);

/**
 * Parses an entry of a catalog file.
 * @throws BridgeError ERR_CATALOG
 */
function parseMuranoEntry(name: string, value: unknown): MuranoDefinition {
  checkCatalogEntry(name, value, { body: isBody, schema: Body, example: 'web.murano-deploy' });
  return { ...isBody.Parse(value), name } as MuranoDefinition; // optional, never undefined
}

/** Catalog of the entry points that may be called. */
export class MuranoCatalog {
  readonly #entries = new Map<string, MuranoDefinition>();

  /**
   * Indexes the entries, and checks that their commands and parameters exist.
   * @throws BridgeError ERR_CATALOG
   */
  constructor(definitions: readonly MuranoDefinition[], commands: Catalog) {
    for (const definition of definitions) {
      const { name, type, entry_point: entryPoint, argument } = definition;
      const found = commands.list().find((it) => it.definition.name === definition.command);
      if (found === undefined)
        throw catalogError(name, 'command', 'the command is not in the command catalog');
      const properties = found.definition.parameters?.properties;
      if (
        argument !== undefined &&
        !(isPlainMap(properties) && Object.hasOwn(properties, argument))
      ) {
        throw catalogError(
          name,
          'argument',
          `the command ${definition.command} has no parameter ${argument}`,
        );
      }
      const key = keyOf(type, entryPoint);
      if (this.#entries.has(key)) {
        throw catalogError(name, 'entry_point', 'two entries have the same type and entry point');
      }
      this.#entries.set(key, definition);
    }
  }

  /**
   * Returns the entry for a call.
   * @param mayCall - whether the caller may call a command; entries of other commands are treated
   * as unknown
   * @throws ExecutionPlanError if the entry point is unknown, or if the hash of its file is not
   * permitted
   */
  find(
    { type, entryPoint, source }: ScriptCall,
    mayCall: (command: string) => boolean,
  ): MuranoDefinition {
    const entry = this.#entries.get(keyOf(type, entryPoint));
    if (entry === undefined || !mayCall(entry.command)) {
      const problem = 'no catalog entry has this entry point, or no rule permits its command';
      throw new ExecutionPlanError(errorCodes.malformed, problem);
    }
    if (entry.sha256 === undefined) return entry;
    const digest = hash('sha256', source ?? '');
    if (!entry.sha256.includes(digest)) {
      const problem = `the file of the entry point does not match the SHA-256 of the catalog entry (its SHA-256 is ${digest})`;
      throw new ExecutionPlanError(errorCodes.malformed, problem);
    }
    return entry;
  }
}

/** Parser and validator of the entries below `murano:` in catalog files. */
export const muranoEntries: CatalogEntryKind<MuranoDefinition> = {
  key: 'murano',
  parse: parseMuranoEntry,
  check: (definition, commands) => {
    new MuranoCatalog([definition], commands);
  },
};

function keyOf(type: string, entryPoint: string): string {
  return JSON.stringify([type, entryPoint]);
}
