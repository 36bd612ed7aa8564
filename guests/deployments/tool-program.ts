/** The command line of a tool in the script that a minion runs. */

import { quoteForShell } from '#heat-bridge';

/** Names that a tool may take as part of a path or an argument. */
export const toolNameForm: RegExp = /^[A-Za-z0-9_-]{1,128}$/;

/** A tool that is missing fails, where heat-agents succeed with nothing done. */
export function runTool(program: string, args: readonly string[], after = ''): string {
  return [
    `if command -v ${program} > /dev/null; then ${[program, ...args].join(' ')}; saltbridge_status=$?`,
    `else echo '${program} is not installed' >&2; saltbridge_status=127; fi${after}`,
  ].join('\n');
}

/** An option of a command line, unless it is off. */
export function toolOption(name: string, value: boolean | string | undefined): readonly string[] {
  if (value === undefined || value === false) return [];
  return value === true ? [name] : [name, quoteForShell(value)];
}
