/** Man pages, made from what `--help` prints: a page for each command and subcommand. */

import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { Command } from 'commander';
import type { CommandContext } from '../context.ts';
import type { LoadAll } from '../define-command.ts';
import { printLine } from '../terminal.ts';

/** `saltbridge man-pages DIR`, for whoever packs it: not listed in the help. */
export function defineManPages(command: Command, context: CommandContext, loadAll: LoadAll): void {
  command.argument('<dir>', 'directory, which is made').action(async (directory: string) => {
    await mkdir(directory, { recursive: true });
    const pages = pagesOf(await loadAll(), []);
    for (const { name, text } of pages) await writeFile(path.join(directory, name), text);
    await printLine(context.stdout, `${pages.length} pages in ${directory}`);
  });
}

interface ManPage {
  readonly name: string;
  readonly text: string;
}

function pagesOf(command: Command, above: readonly Command[]): ManPage[] {
  const commands = subcommandsOf(command);
  const page = pageOf(command, above, commands);
  return [page, ...commands.flatMap((it) => pagesOf(it, [...above, command]))];
}

/** Those that the help lists; not `help` itself. */
function subcommandsOf(command: Command): Command[] {
  const help = command.createHelp();
  return help.visibleCommands(command).filter((it) => command.commands.includes(it));
}

function pageOf(
  command: Command,
  above: readonly Command[],
  commands: readonly Command[],
): ManPage {
  const help = command.createHelp();
  const name = [...above, command].map((it) => it.name()).join('-');
  const section = (title: string, rows: readonly (readonly [string, string])[]): string[] =>
    rows.length === 0
      ? []
      : [`.SH ${title}`, ...rows.flatMap(([term, text]) => ['.TP', bold(term), line(text)])];
  const parent = above.map((it) => it.name()).join('-');
  const related = [
    ...(parent === '' ? [] : [parent]),
    ...commands.map((it) => `${name}-${it.name()}`),
  ];
  const text = [
    `.TH ${roff(name.toUpperCase())} 1 "" saltbridge "saltbridge manual"`,
    '.SH NAME',
    `${roff(name)} \\- ${roff(command.description())}`,
    '.SH SYNOPSIS',
    bold(help.commandUsage(command)),
    ...section(
      'ARGUMENTS',
      help
        .visibleArguments(command)
        .map((it) => [help.argumentTerm(it), help.argumentDescription(it)] as const),
    ),
    ...section(
      'OPTIONS',
      help
        .visibleOptions(command)
        .map((it) => [help.optionTerm(it), help.optionDescription(it)] as const),
    ),
    ...section(
      'COMMANDS',
      commands.map((it) => [help.subcommandTerm(it), help.subcommandDescription(it)] as const),
    ),
    ...(related.length === 0
      ? []
      : ['.SH SEE ALSO', line(related.map((it) => `${it}(1)`).join(', '))]),
  ];
  return { name: `${name}.1`, text: `${text.join('\n')}\n` };
}

function bold(text: string): string {
  return `.B ${roff(text)}`;
}

function line(text: string): string {
  return `\\&${roff(text)}`;
}

/** Text that means itself to roff, in ASCII. */
function roff(text: string): string {
  return text
    .replaceAll('\\', '\\e')
    .replaceAll('-', '\\-')
    .replaceAll('"', '\\(dq')
    .replace(/[^\0-\x7f]/gu, (it) => `\\[u${(it.codePointAt(0) ?? 0).toString(16).toUpperCase()}]`);
}
