import type { Command } from 'commander';
import type { CommandContext } from '../context.ts';
import { addNamedCommands } from './bridge-commands.ts';
import { addHandleCommands } from './bridge-handle.ts';
import { addOutboxCommands } from './bridge-outbox.ts';
import { addPlanCommands } from './bridge-plans.ts';

/** `saltbridge bridge`: what the bridge of the running master does for orchestration services. */
export function addBridgeCommand(program: Command, context: CommandContext): void {
  const bridge = program
    .command('bridge')
    .description("see and run the running master's bridge to orchestration services");
  addNamedCommands(bridge, context);
  addPlanCommands(bridge, context);
  addHandleCommands(bridge, context);
  addOutboxCommands(bridge, context);
}
