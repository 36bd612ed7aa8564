import type { Command } from 'commander';
import type { CommandContext } from './context.ts';

/** Loads the program with all commands, for a command that describes them. */
export type LoadAll = () => Promise<Command>;

/** Adds arguments, options, subcommands and the action to a command. */
export type DefineCommand = (command: Command, context: CommandContext, loadAll: LoadAll) => void;
