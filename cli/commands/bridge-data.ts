import type { Command } from 'commander';
import type { DataSpaceDetails, DataSpaceInfo } from '#guests';
import type { CommandContext } from '../context.ts';
import { escapeName, printLine } from '../terminal.ts';
import { addRegistry } from './bridge-registry.ts';

/**
 * Defines `saltbridge bridge data`, which manages data spaces: values that the minions of a stack
 * write for each other.
 */
export function addDataCommands(bridge: Command, context: CommandContext): void {
  const { stdout } = context;
  const print = (info: DataSpaceInfo): Promise<void> => printLine(stdout, formatSpace(info));
  addRegistry<DataSpaceInfo, DataSpaceDetails>(bridge, context, {
    name: 'data',
    methods: 'data',
    noun: 'data space',
    page: 'docs/data-spaces.md',
    help: {
      all: 'manage data spaces: values that the minions of a stack write for each other',
      add: 'register a data space with the roles of a stack and their minions',
      show: 'show which values of a data space are set, without the values',
      remove: 'remove a data space and its values',
    },
    print,
    printDetails: async (details) => {
      await print(details);
      for (const value of details.values) await printLine(stdout, formatValue(value));
    },
  });
}

function formatSpace({ name, owner, roles, keys }: DataSpaceInfo): string {
  const who = Object.entries(roles).map(([role, minions]) => `${role} (${minions.join(', ')})`);
  const whose = owner === undefined ? '' : `, of ${owner}`;
  return escapeName(`${name}: ${keys} values, roles ${who.join(', ')}${whose}`);
}

function formatValue(value: DataSpaceDetails['values'][number]): string {
  const { key, readers, secret, versioned, bytes } = value;
  const how = [secret ? 'secret' : '', versioned ? 'versioned' : ''].filter(Boolean);
  const what = how.length === 0 ? '' : ` (${how.join(', ')})`;
  const state = bytes === undefined ? 'not written' : `${bytes} bytes`;
  const whom = readers.length === 0 ? 'no role' : readers.join(', ');
  return escapeName(`${key}${what}: ${state}, read by ${whom}`);
}
