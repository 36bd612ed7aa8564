/**
 * Code that templates may bring: `deployments:` in files of the catalog. An entry pins the SHA-256 of
 * the text, or says that the operator understands what it means to run any.
 */

import { createHash, randomBytes } from 'node:crypto';
import Type from '#typebox';
import { Compile } from '#typebox/compile';
import type { JsonValue } from '../../runtime/index.ts';
import { Catalog } from '../commands/command-catalog.ts';
import {
  type CommandDefinition,
  catalogError,
  catalogNameForm,
  type JsonSchema,
} from '../commands/command-definition.ts';
import { type CompiledParameters, compileParameters } from '../commands/parameters.ts';
import { BridgeError } from '../errors.ts';
import type { Deployment } from './metadata.ts';
import type { ResolvedCall } from './resolved-call.ts';

/** An entry of `deployments:`. */
export interface CodeDefinition {
  /** As commands are named; rules of the action `command` name it too. */
  readonly name: string;
  readonly description: string;
  /** The group of the config. */
  readonly group: 'script';
  /** SHA-256 of the texts that may run, as hex. Either this or `unsafe`. */
  readonly sha256?: readonly string[];
  /** Any text may run. */
  readonly unsafe?: 'i-understand';
  /** JSON Schema of the inputs, an object. Default: none. */
  readonly parameters?: JsonSchema;
  /** A compound target: minions beyond it are refused. */
  readonly within?: string;
  /** Seconds. Default 600. */
  readonly timeout?: number;
}

const Words = Type.String({ minLength: 1, maxLength: 4096 });
const isBody = Compile(
  Type.Object(
    {
      description: Words,
      group: Type.Literal('script'),
      sha256: Type.Optional(
        Type.Array(Type.String({ pattern: '^[0-9a-f]{64}$' }), { minItems: 1, maxItems: 1000 }),
      ),
      unsafe: Type.Optional(Type.Literal('i-understand')),
      parameters: Type.Optional(Type.Object({})),
      within: Type.Optional(Words),
      timeout: Type.Optional(Type.Number({ exclusiveMinimum: 0, maximum: 86_400 })),
    },
    { additionalProperties: false },
  ),
);

/** Reads an entry of a file. @throws BridgeError ERR_CATALOG */
export function parseCodeEntry(name: string, value: unknown): CodeDefinition {
  if (!catalogNameForm.test(name) || name.length > 128) {
    throw catalogError(name, '', 'expected a name such as site.tune-kernel');
  }
  const [first] = isBody.Errors(value);
  if (first !== undefined) {
    const field = first.instancePath.slice(1).replaceAll('/', '.');
    throw catalogError(name, field, first.keyword === 'boolean' ? 'no such field' : first.message);
  }
  const definition = { ...isBody.Parse(value), name } as CodeDefinition; // optional, never undefined
  if ((definition.sha256 === undefined) === (definition.unsafe === undefined)) {
    throw catalogError(name, 'sha256', 'expected this, or else unsafe: i-understand');
  }
  return definition;
}

interface CompiledCode {
  readonly definition: CodeDefinition;
  readonly inputs: CompiledParameters;
}

/** Code that may run. */
export class CodeCatalog {
  readonly #entries: readonly CompiledCode[];
  /** The entries as commands, which no caller can name. */
  readonly commands: Catalog;

  /** @throws BridgeError ERR_CATALOG */
  constructor(definitions: readonly CodeDefinition[]) {
    this.#entries = definitions.map((definition) => ({
      definition,
      inputs: compileParameters(definition.name, definition.parameters),
    }));
    this.commands = new Catalog(definitions.map(commandOf));
  }

  /** The call of an entry that permits the text and its inputs. */
  resolve({ config, inputs, outputs }: Deployment): ResolvedCall {
    if (typeof config !== 'string' || config === '') {
      return { ok: false, reason: 'group script: the config is no text' };
    }
    const digest = createHash('sha256').update(config, 'utf8').digest('hex');
    // protection: unpinned-code
    const pinned = this.#entries.find(({ definition }) => definition.sha256?.includes(digest));
    const entry = pinned ?? this.#entries.find(({ definition }) => definition.unsafe !== undefined);
    if (entry === undefined) {
      const reason = `group script: no entry of the catalog permits this code (SHA-256 ${digest})`;
      return { ok: false, reason };
    }
    const { name } = entry.definition;
    try {
      // What the entry does not name is not taken: PATH or LD_PRELOAD would be code as well.
      // protection: inputs-of-code
      const values = entry.inputs.check(inputs);
      const code = wrapScript({ script: config, inputs: values, outputs });
      return { ok: true, call: { kind: 'code', command: name, params: { code } } };
    } catch (error) {
      if (error instanceof BridgeError) return { ok: false, reason: error.message };
      throw error;
    }
  }
}

function commandOf({
  name,
  description,
  within,
  timeout = 600,
}: CodeDefinition): CommandDefinition {
  return {
    name,
    description,
    function: 'cmd.exec_code_all',
    parameters: {
      type: 'object',
      required: ['code'],
      properties: { code: { type: 'string', 'x-allow-newlines': true } },
    },
    arguments: { lang: { value: '/bin/sh' }, code: { parameter: 'code' } },
    unsafe: 'i-understand',
    timeoutSeconds: timeout,
    ...(within === undefined ? {} : { within }),
  };
}

// The script as Heat's agents run one: inputs in the environment, outputs from files.

const outputName = /^[A-Za-z_][A-Za-z0-9_.-]{0,127}$/;
const maxOutputBytes = 65_536;

/** All that is not ours is in base64: nothing in it is read by the shell that runs it. */
function wrapScript({
  script,
  inputs,
  outputs,
}: {
  readonly script: string;
  readonly inputs: Readonly<Record<string, JsonValue>>;
  readonly outputs: readonly string[];
}): string {
  const boundary = `saltbridge-${randomBytes(12).toString('hex')}`;
  const variables = Object.entries(inputs).map(([name, value]) => {
    const text = typeof value === 'string' ? value : JSON.stringify(value);
    // The shell drops line ends behind what a command prints; the x keeps them.
    return `${name}="$(printf %s ${base64(text)} | base64 -d; printf x)"; export ${name}="\${${name}%x}"`;
  });
  const names = outputs.filter((name) => outputName.test(name));
  return [
    '# Runs the script of a software deployment.',
    'dir=$(mktemp -d) || exit 126',
    `trap 'rm -rf "$dir"' EXIT`,
    'export heat_outputs_path="$dir/output"',
    ...variables,
    `printf %s ${base64(script)} | base64 -d > "$dir/script" && chmod 700 "$dir/script" || exit 126`,
    '"$dir/script"; status=$?',
    ...names.map(
      (name) =>
        `[ -f "$dir/output.${name}" ] && printf '\\n${boundary} ${name} ' && head -c ${maxOutputBytes} "$dir/output.${name}" | base64 | tr -d '\\n'`,
    ),
    `printf '\\n${boundary}\\n'`,
    'exit $status',
    '',
  ].join('\n');
}

function base64(text: string): string {
  const encoded = Buffer.from(text, 'utf8').toString('base64');
  return encoded === '' ? "''" : encoded;
}

const boundaryForm = /saltbridge-[0-9a-f]{24}/;

/** What a script wrote to its outputs, and its own standard output. @param code - as it was run */
export function readScriptOutput(
  code: string,
  stdout: string,
): { readonly stdout: string; readonly outputs: Readonly<Record<string, string>> } {
  const boundary = boundaryForm.exec(code.slice(code.lastIndexOf('\nexit $status') - 64))?.[0];
  const at = boundary === undefined ? -1 : stdout.indexOf(`\n${boundary}`);
  if (boundary === undefined || at < 0) return { stdout, outputs: {} };
  const outputs: Record<string, string> = Object.create(null);
  for (const line of stdout.slice(at).split('\n')) {
    const [mark, name, value] = line.split(' ');
    if (mark !== boundary || name === undefined || value === undefined) continue;
    outputs[name] = Buffer.from(value, 'base64').toString('utf8');
  }
  return { stdout: stdout.slice(0, at), outputs };
}
