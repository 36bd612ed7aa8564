/** The commands of a bridge, by name. */
import { BridgeError } from '../errors.ts';
import { type CompiledCommand, compileCommand } from './compile-command.ts';
import { type CommandDefinition, refuse } from './definition.ts';
import { createStandings } from './function-lists.ts';

/** Commands that can be called. */
export class Catalog {
  readonly #commands: ReadonlyMap<string, CompiledCommand>;

  /** @throws BridgeError ERR_CATALOG */
  constructor(definitions: readonly CommandDefinition[]) {
    const standings = createStandings();
    const commands = new Map<string, CompiledCommand>();
    for (const definition of definitions) {
      const { name } = definition;
      if (commands.has(name)) throw refuse(name, '', 'there is a command of this name already');
      commands.set(name, compileCommand(definition, standings));
    }
    this.#commands = commands;
  }

  /** In the order of their names. */
  list(): readonly CompiledCommand[] {
    return [...this.#commands.values()].sort((a, b) =>
      a.definition.name < b.definition.name ? -1 : 1,
    );
  }

  /** @throws BridgeError ERR_COMMAND_UNKNOWN */
  get(name: string): CompiledCommand {
    // protection: functions-as-commands
    const found = this.#commands.get(name);
    if (found !== undefined) return found;
    const text = 'no command of this name is in the catalog; saltbridge bridge list shows them';
    throw new BridgeError('ERR_COMMAND_UNKNOWN', text);
  }
}
