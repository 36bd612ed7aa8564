// Writes docs/command-options.md from the definitions in cli/commands/. The page lists the
// arguments and options of all subcommands. With --check, the script only compares the page.
import { Command, Help } from 'commander';
import { addSubcommands } from '#cli/subcommands.ts';
import { tableOf, updatePage } from './generated-page.ts';

const help = new Help();

/** Rows of options that many commands have, by their text. */
const shared = new Map();

/**
 * Returns the text of a table cell, with characters escaped that Markdown or HTML would interpret.
 */
function cellOf(text) {
  return text.replaceAll('|', '\\|').replaceAll('<', '&lt;').replaceAll('*', '\\*');
}

/** Returns a paragraph with a table, or nothing if the table has no rows. */
function tableWith(head, rows) {
  return rows.length === 0 ? '' : `\n${tableOf(head, rows)}`;
}

/** Returns the commands below `command` that have an action, with their full names. */
function commandsOf(command, parents = []) {
  const names = [...parents, command.name()];
  const below = help.visibleCommands(command).filter((it) => it.name() !== 'help');
  if (below.length === 0) return [{ command, name: names.join(' ') }];
  return below.flatMap((it) => commandsOf(it, names));
}

function sentence(text) {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}

function optionRow(option) {
  return [
    `\`${help.optionTerm(option)}\``.replaceAll('|', '\\|'),
    cellOf(help.optionDescription(option)),
  ];
}

/** Returns the options of a command, without `--help`. */
function optionsOf(command) {
  return help.visibleOptions(command).filter((it) => it.long !== '--help');
}

function sectionOf({ command, name }) {
  const positional = help
    .visibleArguments(command)
    .map((it) => [`\`${help.argumentTerm(it)}\``, cellOf(help.argumentDescription(it))]);
  const options = optionsOf(command);
  const rows = options.map(optionRow).filter((row) => !shared.has(row.join()));
  const others = options.filter((it) => shared.has(optionRow(it).join())).map((it) => it.long);
  const usage = `saltbridge ${name.replace(/^saltbridge /, '')} ${command.usage()}`;
  return [
    `\n## ${name}\n\n${sentence(cellOf(command.description()))}\n`,
    `\n\`\`\`text\n${usage.trim()}\n\`\`\`\n`,
    tableWith(['argument', 'meaning'], positional),
    tableWith(['option', 'meaning'], rows),
    others.length === 0 ? '' : `\nShared options: ${others.map((it) => `\`${it}\``).join(', ')}.\n`,
  ].join('');
}

const program = new Command('saltbridge');
await addSubcommands(program, {}, () => true);
const commands = commandsOf(program);
const counts = new Map();
for (const { command } of commands) {
  for (const row of optionsOf(command).map(optionRow)) {
    const known = counts.get(row.join()) ?? { row, count: 0 };
    counts.set(row.join(), { row, count: known.count + 1 });
  }
}
for (const [key, { row, count }] of counts) if (count >= 10) shared.set(key, row);

const page = `# Options of all subcommands

Reference. Arguments and options of every subcommand of \`saltbridge\`, in the order of \`saltbridge --help\`. [The command line](command-line.md) describes the subcommands and their exit codes.

The page is generated from \`cli/commands/\` by \`scripts/commands-doc.js\`.

## Shared options

The section of each subcommand names the shared options that it has.
${tableWith(['option', 'meaning'], [...shared.values()])}${commands.map(sectionOf).join('')}`;

updatePage('docs/command-options.md', () => page);
