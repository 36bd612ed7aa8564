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
import {
  type CompiledParameters,
  compileParameters,
  findTextProblem,
} from '../commands/parameters.ts';
import { BridgeError } from '../errors.ts';
import type { Deployment } from './metadata.ts';
import type { ResolvedCall } from './resolved-call.ts';

type CodeGroup = 'salt' | 'script';

/** An entry of `deployments:`. */
export interface CodeDefinition {
  /** As commands are named; rules of the action `command` name it too. */
  readonly name: string;
  readonly description: string;
  /** The group of the config: `salt` is inline SLS, for the groups `salt` and `salt-state`. */
  readonly group: CodeGroup;
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
      group: Type.Union([Type.Literal('salt'), Type.Literal('script')]),
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

  /** The call of an entry of this group that permits the text and its inputs. */
  resolve(group: CodeGroup, { config, inputs, outputs }: Deployment): ResolvedCall {
    if (typeof config !== 'string' || config === '') {
      return { ok: false, reason: `group ${group}: the config is no text` };
    }
    const digest = createHash('sha256').update(config, 'utf8').digest('hex');
    const entries = this.#entries.filter(({ definition }) => definition.group === group);
    // protection: unpinned-code
    const pinned = entries.find(({ definition }) => definition.sha256?.includes(digest));
    const entry = pinned ?? entries.find(({ definition }) => definition.unsafe !== undefined);
    if (entry === undefined) {
      const what = group === 'salt' ? 'inline SLS' : 'code';
      const reason = `group ${group}: no entry of the catalog permits this ${what} (SHA-256 ${digest})`;
      return { ok: false, reason };
    }
    const { name } = entry.definition;
    try {
      // What the entry does not name is not taken: PATH or LD_PRELOAD would be code as well.
      // protection: inputs-of-code
      const values = entry.inputs.check(inputs, (parameters) =>
        group === 'salt'
          ? findTextProblem(parameters, entry.inputs.schema, { isRendered: true })
          : undefined,
      );
      const params =
        group === 'salt'
          ? { tem: slsWithInputs(name, config, values) }
          : { code: wrapScript({ script: config, inputs: values, outputs }) };
      return { ok: true, call: { kind: 'code', command: name, params } };
    } catch (error) {
      if (error instanceof BridgeError) return { ok: false, reason: error.message };
      throw error;
    }
  }
}

function commandOf({
  name,
  description,
  group,
  within,
  timeout = 600,
}: CodeDefinition): CommandDefinition {
  return {
    name,
    description,
    ...implementations[group],
    unsafe: 'i-understand',
    timeoutSeconds: timeout,
    ...(within === undefined ? {} : { within }),
  };
}

const anyText: JsonSchema = {
  type: 'string',
  'x-allow-newlines': true,
  'x-allow-leading-dash': true,
};
const implementations: Readonly<
  Record<CodeGroup, Pick<CommandDefinition, 'arguments' | 'function' | 'parameters'>>
> = {
  script: {
    function: 'cmd.exec_code_all',
    parameters: { type: 'object', required: ['code'], properties: { code: anyText } },
    arguments: { lang: { value: '/bin/sh' }, code: { parameter: 'code' } },
  },
  salt: {
    function: 'state.template_str',
    parameters: { type: 'object', required: ['tem'], properties: { tem: anyText } },
    arguments: { tem: { parameter: 'tem' }, queue: { value: true } },
  },
};

// Inline SLS: no function of Salt's takes pillar beside it, so its inputs are put before it.

/**
 * SLS whose `pillar` has the inputs as well. They are in base64, which is text to Jinja and nothing
 * else.
 * @throws BridgeError ERR_COMMAND_PARAMETERS for inputs of SLS that names its renderers itself
 */
function slsWithInputs(
  name: string,
  sls: string,
  inputs: Readonly<Record<string, JsonValue>>,
): string {
  if (Object.keys(inputs).length === 0) return sls;
  if (sls.startsWith('#!')) {
    const message = `${name}: inline SLS with a line of renderers (#!…) takes no inputs`;
    throw new BridgeError('ERR_COMMAND_PARAMETERS', message);
  }
  const encoded = base64(JSON.stringify(inputs));
  return `{%- set pillar = dict(pillar, **('${encoded}' | base64_decode | load_json)) -%}\n${sls}`;
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
