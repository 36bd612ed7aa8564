/** Scripts as Heat's agents run them: inputs in the environment, outputs from files. */

import { randomBytes } from 'node:crypto';
import type { JsonValue } from '../../runtime/index.ts';

const outputName = /^[A-Za-z_][A-Za-z0-9_.-]{0,127}$/;
const maxOutputBytes = 65_536;

/** All that is not ours is in base64: nothing in it is read by the shell that runs it. */
export function wrapScript({
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
