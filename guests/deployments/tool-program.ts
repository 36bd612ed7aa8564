/** Writes the command line of a tool into the script of a deployment. */

import { quoteForShell } from '#heat-bridge';

/** Form of names that may be part of a path or an argument. */
export const toolNameForm: RegExp = /^[A-Za-z0-9_-]{1,128}$/;

/**
 * Returns shell commands that run a tool, and store its exit status in `saltbridge_status`. Unlike
 * the commands of heat-agents, they report status 127 if the tool is missing.
 * @param after - shell code that runs after the tool, also if the tool is missing. It must begin
 * with a line break. Default: none
 */
export function runTool(program: string, args: readonly string[], after = ''): string {
  return [
    `if command -v ${program} > /dev/null; then ${[program, ...args].join(' ')}; saltbridge_status=$?`,
    `else echo '${program} is not installed' >&2; saltbridge_status=127; fi${after}`,
  ].join('\n');
}

/** Returns an option of a command line. Returns an empty list if the option is false or absent. */
export function toolOption(name: string, value: boolean | string | undefined): readonly string[] {
  if (value === undefined || value === false) return [];
  return value === true ? [name] : [name, quoteForShell(value)];
}
