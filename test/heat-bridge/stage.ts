/** Starts a master with a bridge, and embedded minions that record their calls. */
import type { ExecutionContext } from 'ava';
import type { Logger } from 'pino';
import { allow, type PolicyRule } from '#acl';
import type { MasterOptions } from '#config';
import { type Bridge, createBridge } from '#guests';
import type { CommandDefinition, CommandTypes, PlanDefinition, PlanTypes } from '#heat-bridge';
import type { Master } from '#master';
import type { Minion, MinionFunction } from '#minion-protocol';
import type { Store } from '#store';
import { startFleet } from '../helpers/fleet.ts';

/** A call that a minion received. */
interface SeenCall {
  /** Id of the minion. */
  readonly id: string;
  readonly fun: string;
  readonly args: readonly unknown[];
  readonly kwargs: Readonly<Record<string, unknown>>;
}

export interface BridgeStage {
  readonly bridge: Bridge<CommandTypes, PlanTypes>;
  readonly master: Master;
  readonly minions: ReadonlyMap<string, Minion>;
  readonly seen: SeenCall[];
}

export interface StageOptions {
  readonly commands?: readonly CommandDefinition[];
  readonly plans?: readonly PlanDefinition[];
  readonly ids?: readonly string[];
  /** Rules of the policy. Default: {@link grant}. */
  readonly rules?: readonly PolicyRule[];
  readonly config?: Partial<MasterOptions>;
  /** Functions of the minions. By default they return true. */
  readonly functions?: Readonly<Record<string, MinionFunction>>;
  readonly store?: Store;
  /** Logger of the master. Default: a silent one. */
  readonly logger?: Logger;
}

/** A command whose function returns its arguments. */
export const echo: CommandDefinition = {
  name: 'demo.echo',
  description: 'Gives back a text.',
  function: 'test.echo',
  parameters: {
    type: 'object',
    required: ['text'],
    properties: { text: { type: 'string', maxLength: 100 } },
  },
};

/** A plan that runs this command twice. */
export const twice: PlanDefinition = {
  name: 'demo.twice',
  description: 'Gives back a text, and again.',
  parameters: {
    type: 'object',
    required: ['text'],
    properties: { text: { type: 'string', maxLength: 100 } },
  },
  groups: { all: {} },
  steps: {
    one: { command: 'demo.echo', group: 'all' },
    two: { command: 'demo.echo', group: 'all', needs: ['one'] },
  },
};

/** Rule that permits the bridge's service to run demo commands on web minions. */
export const grant: PolicyRule = allow('demo', {
  subject: { service: 'bridge' },
  action: 'command',
  resource: { fun: 'demo.*', within: 'web*' },
});

/** Returns the policy of a configuration. */
export function acl(rules: readonly PolicyRule[]): NonNullable<MasterOptions['acl']> {
  return { signals: [], rules, mode: 'enforce', learnActions: [], recordData: false };
}

/** Starts the master. It is closed at the end of the test. */
export async function startBridge(
  t: ExecutionContext,
  options: StageOptions = {},
): Promise<BridgeStage> {
  const { commands = [echo], ids = ['web1', 'web2', 'db1'], rules = [grant] } = options;
  const seen: SeenCall[] = [];
  const bridge = createBridge({ commands, plans: options.plans ?? [] });
  const called = commands.map((it) => it.function ?? 'state.apply');
  const names = [...new Set([...called, 'cmd.run', ...Object.keys(options.functions ?? {})])];
  const functions = Object.fromEntries(
    names.map((fun): [string, MinionFunction] => [
      fun,
      async (call, context) => {
        const { args, kwargs } = call;
        seen.push({ id: context.id, fun, args: [...args], kwargs: { ...kwargs } });
        return (await options.functions?.[fun]?.(call, context)) ?? true;
      },
    ]),
  );
  const { master, minions } = await startFleet(t, {
    ids,
    functions,
    config: { acl: acl(rules), ...options.config },
    extensions: [bridge],
    ...(options.store === undefined ? {} : { store: options.store }),
    ...(options.logger === undefined ? {} : { logger: options.logger }),
  });
  return { bridge, master, minions, seen };
}
