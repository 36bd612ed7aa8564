/** Declarations for programs that call commands. */
import type { CommandInfo } from './describe.ts';
import { typeOf } from './markdown.ts';

/** A `.d.ts` with the types of all parameters, for `Bridge<Commands>`. */
export function commandsAsTypes(commands: readonly CommandInfo[]): string {
  const members = commands.map(
    ({ name, description, deprecated, parameters }) =>
      `${comment(description, deprecated)}  readonly '${name}': { readonly params: ${typeOf(parameters)} };`,
  );
  return `/** Made by \`saltbridge bridge types\`. */\nexport interface Commands {\n${members.join('\n')}\n}\n`;
}

function comment(description: string, deprecated: string | undefined): string {
  const note = deprecated === undefined ? '' : ` @deprecated ${deprecated}`;
  const text = `${description}${note}`.replaceAll('*/', '* /').replaceAll(/\s+/g, ' ');
  return `  /** ${text} */\n`;
}
