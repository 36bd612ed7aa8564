/** Scripts as Heat's agents run them: inputs in the environment, outputs from files. */

import { randomBytes } from 'node:crypto';
import { type JsonValue, writeJson } from '#runtime';

const outputName = /^[A-Za-z_][A-Za-z0-9_.-]{0,127}$/;
const maxOutputBytes = 65_536;

/** What a shell of the minion runs. */
export interface WrappedProgram {
  /** Variables of its environment. */
  readonly variables: Readonly<Record<string, JsonValue>>;
  /** By name, in a directory of its own; executable, and nobody else's to read. */
  readonly files: Readonly<Record<string, string>>;
  /** Our own text: `$saltbridge_dir` is the directory, `$saltbridge_status` is set to how it ended. */
  readonly run: string;
  /** Names of outputs that are read from files. */
  readonly outputs: readonly string[];
}

/** A script with its inputs in the environment. */
export function wrapScript(
  script: string,
  { variables, outputs }: Pick<WrappedProgram, 'outputs' | 'variables'>,
): string {
  return wrapProgram({
    variables,
    files: { script },
    run: '"$saltbridge_dir/script"; saltbridge_status=$?',
    outputs,
  });
}

/**
 * All that is not ours is in base64: nothing in it is read by the shell that runs it, whose own
 * variables have names that no input has.
 */
export function wrapProgram({ variables, files, run, outputs }: WrappedProgram): string {
  const boundary = `saltbridge-${randomBytes(12).toString('hex')}`;
  const exported = Object.entries(variables).map(([name, value]) => {
    const text = typeof value === 'string' ? value : writeJson(value);
    // The shell drops line ends behind what a command prints; the x keeps them.
    return `${name}="$(printf %s ${base64(text)} | base64 -d; printf x)"; export ${name}="\${${name}%x}"`;
  });
  const written = Object.entries(files).map(
    ([name, text]) =>
      `printf %s ${base64(text)} | base64 -d > "$saltbridge_dir/${name}" && chmod 700 "$saltbridge_dir/${name}" || exit 126`,
  );
  const names = outputs.filter((name) => outputName.test(name));
  return [
    '# Runs the config of a software deployment.',
    'saltbridge_dir=$(mktemp -d) || exit 126',
    `trap 'rm -rf "$saltbridge_dir"' EXIT`,
    'export heat_outputs_path="$saltbridge_dir/output"',
    ...exported,
    ...written,
    run,
    ...names.map(
      (name) =>
        `[ -f "$saltbridge_dir/output.${name}" ] && printf '\\n${boundary} ${name} ' && head -c ${maxOutputBytes} "$saltbridge_dir/output.${name}" | base64 | tr -d '\\n'`,
    ),
    `printf '\\n${boundary}\\n'`,
    'exit $saltbridge_status',
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
  const boundary = boundaryForm.exec(
    code.slice(code.lastIndexOf('\nexit $saltbridge_status') - 64),
  )?.[0];
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
