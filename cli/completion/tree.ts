import type { Argument, Command, Option } from 'commander';

/** What may stand in a place of the command line. */
export type CompletionKind =
  | 'any'
  | 'files'
  /** Ids of accepted keys; ids of all keys; ids of the latest jobs. */
  | 'minions'
  | 'keys'
  | 'jids'
  | { readonly words: readonly string[] };

/** An option, under every name that it has. */
export interface CompletionOption {
  readonly flags: readonly string[];
  readonly description: string;
  /** What follows it; `undefined`: nothing. */
  readonly value: CompletionKind | undefined;
}

/** A command below the program, or the program itself. */
export interface CompletionCommand {
  /** Names from the program's first command on; empty for the program. */
  readonly path: readonly string[];
  readonly description: string;
  readonly options: readonly CompletionOption[];
  readonly arguments: readonly CompletionKind[];
  readonly commands: readonly CompletionCommand[];
}

/** By the names that arguments and values have in the help. */
const kinds: ReadonlyMap<string, CompletionKind> = new Map([
  ['dir', 'files'],
  ['file', 'files'],
  ['glob', 'keys'],
  ['id', 'keys'],
  ['jid', 'jids'],
  ['target', 'files'],
  ['tgt', 'minions'],
]);

/** What there is to complete of a command and of those below it. */
export function describeCommand(command: Command, path: readonly string[] = []): CompletionCommand {
  const help = command.createHelp();
  return {
    path,
    description: command.description(),
    options: help.visibleOptions(command).map(describeOption),
    arguments: command.registeredArguments.map(describeArgument),
    commands: help
      .visibleCommands(command)
      .filter((it) => command.commands.includes(it))
      .map((it) => describeCommand(it, [...path, it.name()])),
  };
}

/** A command and all below it, each before its own. */
export function allCommands(command: CompletionCommand): CompletionCommand[] {
  return [command, ...command.commands.flatMap(allCommands)];
}

function describeOption(option: Option): CompletionOption {
  const flags = [option.short, option.long].filter((flag) => flag !== undefined);
  const takesValue = option.required || option.optional;
  const [, name = ''] = /[<[](.*?)[>\]]/.exec(option.flags) ?? [];
  return {
    flags,
    description: option.description,
    value: takesValue ? kindOf(name, option.argChoices) : undefined,
  };
}

function describeArgument(argument: Argument): CompletionKind {
  return kindOf(argument.name(), argument.argChoices);
}

function kindOf(name: string, choices: readonly string[] | undefined): CompletionKind {
  return choices === undefined ? (kinds.get(name) ?? 'any') : { words: choices };
}
