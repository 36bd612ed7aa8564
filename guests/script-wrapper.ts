/**
 * Shell code that runs scripts as Heat's agents do: inputs are environment variables, and outputs
 * are read from files.
 */

import { randomBytes } from 'node:crypto';
import type { ParameterValue } from '#heat-bridge';
import { quoteForShell } from '#heat-bridge';
import { writeJson } from '#runtime';

/** Form of the names of outputs. Each name is part of a file name. */
const outputName = /^[^/\p{Cc}]{1,128}$/u;
/** Maximum size of one output, in bytes. heat-agents limit a result to the same size. */
const maxOutputBytes = 950_000;

/** Program to run in a shell of the minion. */
export interface WrappedProgram {
  /** Environment variables of the program, by name. */
  readonly variables: Readonly<Record<string, ParameterValue>>;
  /**
   * Files to write to a temporary directory, by name. They are executable, and only their owner can
   * read them.
   */
  readonly files: Readonly<Record<string, string>>;
  /**
   * Trusted shell code that runs the program. `$saltbridge_dir` is the temporary directory. The
   * code must set `$saltbridge_status` to the exit code.
   */
  readonly run: string;
  /** Names of outputs to read from files. */
  readonly outputs: readonly string[];
}

/** Returns shell code that runs a script with its inputs as environment variables. */
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
 * Returns the shell code that runs a program. All untrusted text is encoded in base64, so that the
 * shell does not interpret it. The code uses names of variables that no input can have.
 */
export function wrapProgram({ variables, files, run, outputs }: WrappedProgram): string {
  const boundary = `saltbridge-${randomBytes(12).toString('hex')}`;
  const exported = Object.entries(variables).map(([name, value]) => {
    const text = typeof value === 'string' ? value : writeJson(value);
    // Command substitution strips trailing newlines. The appended x preserves them.
    return `${name}="$(printf %s ${base64(text)} | base64 -d; printf x)"; export ${name}="\${${name}%x}"`;
  });
  const written = Object.entries(files).map(
    ([name, text]) =>
      `printf %s ${base64(text)} | base64 -d > "$saltbridge_dir/${name}" && chmod 700 "$saltbridge_dir/${name}" || exit 126`,
  );
  const names = outputs.filter((name) => outputName.test(name));
  return [
    '# Runs the config of a software deployment.',
    ...makeDirectory,
    `trap 'rm -rf "$saltbridge_dir"' EXIT`,
    'export heat_outputs_path="$saltbridge_dir/output"',
    ...exported,
    ...written,
    run,
    ...names.map(
      (name) =>
        `saltbridge_output="$saltbridge_dir"/output.${quoteForShell(name)}; [ -f "$saltbridge_output" ] && printf '\\n${boundary} ${hexOf(name)} %s ' "$(($(wc -c < "$saltbridge_output")))" && head -c ${maxOutputBytes} "$saltbridge_output" | base64 | tr -d '\\n'`,
    ),
    `printf '\\n${boundary}\\n'`,
    'exit $saltbridge_status',
    '',
  ].join('\n');
}

/** Directories that are tried if programs cannot run in the directory for temporary files. */
const otherDirectories = ['/var/lib/saltbridge', '/var/tmp'] as const;

/**
 * Lines of shell code that create a directory in which programs can run. The directory for
 * temporary files is often mounted with `noexec`.
 */
const makeDirectory: readonly string[] = [
  'saltbridge_dir=',
  `for saltbridge_base in "\${TMPDIR:-/tmp}" ${otherDirectories.join(' ')}; do`,
  '  mkdir -p "$saltbridge_base" 2> /dev/null',
  '  saltbridge_dir=$(mktemp -d "$saltbridge_base/saltbridge.XXXXXXXXXX" 2> /dev/null) || continue',
  `  printf '#!/bin/sh\n' > "$saltbridge_dir/probe" && chmod 700 "$saltbridge_dir/probe" &&`,
  '    "$saltbridge_dir/probe" 2> /dev/null && break',
  '  rm -rf "$saltbridge_dir"; saltbridge_dir=',
  'done',
  'if [ -z "$saltbridge_dir" ]; then',
  `  echo "no directory can run programs: \${TMPDIR:-/tmp}, ${otherDirectories.join(', ')} are missing, full, read-only or mounted with noexec" >&2`,
  '  exit 126',
  'fi',
];

function hexOf(text: string): string {
  return Buffer.from(text, 'utf8').toString('hex');
}

function base64(text: string): string {
  const encoded = Buffer.from(text, 'utf8').toString('base64');
  return encoded === '' ? "''" : encoded;
}

const boundaryForm = /saltbridge-[0-9a-f]{24}/;

/**
 * Splits the standard output of the shell code around a script. Returns the script's own standard
 * output, and its outputs: named values for Heat.
 * @param code - the shell code that ran
 * @param stdout - standard output of the shell code
 */
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
    const [mark, name, size, value] = line.split(' ');
    if (mark !== boundary || name === undefined || value === undefined) continue;
    const bytes = Buffer.from(value, 'base64');
    const cut =
      Number(size) > bytes.length ? `\n[cut: the first ${bytes.length} of ${size} bytes]` : '';
    outputs[Buffer.from(name, 'hex').toString('utf8')] = bytes.toString('utf8') + cut;
  }
  return { stdout: stdout.slice(0, at), outputs };
}
