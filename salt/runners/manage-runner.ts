/** The `manage` runner [salt/runners/manage.py]. */

import { literalGlob } from '#acl';
import {
  AuthorizationError,
  type CallContext,
  type InProcessApi,
  isOfOperator,
  type MasterFunction,
  type PresentMinion,
} from '#master';
import type { WireMap } from '#minion-protocol';
import { type FunctionTable, masterFunction, refused } from '../functions/define-function.ts';
import { flag, names, optional, seconds, target, text } from '../functions/parameters.ts';
import {
  askMinions,
  type MinionCalls,
  type RequesterTargets,
  targetOfRequester,
} from '../minion-calls.ts';

export interface ManageRunnerDeps extends MinionCalls {
  readonly keys: Pick<InProcessApi['keys'], 'delete'>;
  readonly targets: RequesterTargets;
  readonly acceptedIds: () => readonly string[];
  readonly present: () => readonly PresentMinion[];
  /** Version of this master, for `manage.versions`. */
  readonly version: string;
}

/** First and last release of Salt minions that the master supports. */
const served: readonly [number, number] = [3000, 3008];

const asked = {
  tgt: optional(target, '*'),
  tgt_type: optional(text, 'glob'),
  timeout: optional(seconds),
  gather_job_timeout: optional(seconds),
} as const;

interface Asked {
  readonly tgt: string | readonly string[];
  readonly tgt_type: string;
  readonly timeout: number | undefined;
  readonly gather_job_timeout: number | undefined;
}

export function manageRunner(parts: ManageRunnerDeps): FunctionTable {
  const status = async (
    {
      tgt,
      tgt_type: tgtType,
      timeout: timeoutSeconds,
      gather_job_timeout: gatherJobTimeoutSeconds,
    }: Asked,
    context: CallContext,
  ): Promise<{ readonly up: string[]; readonly down: string[] }> => {
    const times = {
      ...(timeoutSeconds === undefined ? {} : { timeoutSeconds }),
      ...(gatherJobTimeoutSeconds === undefined ? {} : { gatherJobTimeoutSeconds }),
    };
    const target = await targetOfRequester({ tgt, tgtType }, context, parts.targets);
    const request = { ...target, fun: 'test.ping', ...times };
    const { answered, silent } = await askMinions(parts, request, context);
    return { up: [...answered], down: [...silent] };
  };
  return {
    'manage.status': masterFunction({
      summary: 'Lists the minions that answer and those that do not.',
      parameters: { output: optional(flag, true), ...asked },
      call: (values, context) => status(values, context),
    }),
    'manage.up': masterFunction({
      summary: 'Lists the minions that answer.',
      parameters: asked,
      call: async (values, context) => (await status(values, context)).up,
    }),
    'manage.down': masterFunction({
      summary: 'Lists the minions that do not answer; with removekeys=True deletes their keys.',
      parameters: { removekeys: optional(flag, false), ...asked },
      call: async ({ removekeys, ...values }, context) => {
        const { down } = await status(values, context);
        if (!removekeys) return down;
        // Check all keys first, so that a call that is not permitted deletes none.
        for (const id of down) await requireDeletion(id, context);
        for (const id of down) await parts.keys.delete({ match: literalGlob(id) }, context.by);
        return down;
      },
    }),
    'manage.versions': masterFunction({
      summary: 'Lists the versions of the minions that answer.',
      parameters: {},
      call: (_values, context) => versions(parts, context),
    }),
    ...presenceFunctions(parts),
  };
}

/**
 * Checks that the caller may delete the key of a minion: the operator, or a requester with the
 * right to the wheel function `key.delete`.
 * @throws MasterError ERR_ARGS
 */
async function requireDeletion(id: string, { by, requireWheel }: CallContext): Promise<void> {
  const denied = `did not delete any key: no rule permits this caller the wheel function key.delete with match=${id}`;
  if (requireWheel === undefined) {
    if (isOfOperator(by)) return;
    throw refused(denied);
  }
  try {
    await requireWheel({ fun: 'key.delete', arg: [], kwarg: { match: literalGlob(id) } });
  } catch (error) {
    throw error instanceof AuthorizationError ? refused(denied) : error;
  }
}

/**
 * Minion states in function names of the `manage` runner. As in Salt, all of them mean the same:
 * the minion is connected. Functions such as `manage.present` list the connected minions. Functions
 * such as `manage.not_present` list the accepted minions that are not connected.
 */
const states = ['state', 'present', 'joined', 'allowed', 'alived', 'reaped'];

function presenceFunctions({ acceptedIds, present: listPresent }: ManageRunnerDeps): FunctionTable {
  const table: Record<string, MasterFunction> = {};
  const parameters = { subset: optional(names), show_ip: optional(flag, false) } as const;
  const present = masterFunction({
    summary: 'Lists the connected minions, without contacting them.',
    parameters,
    call: ({ subset, show_ip: showIp }) => {
      const wanted = subset && new Set(subset);
      const found = listPresent().filter(({ id }) => wanted?.has(id) ?? true);
      if (!showIp) return found.map(({ id }) => id).sort();
      return Object.fromEntries(found.map(({ id, address }) => [id, address]));
    },
  });
  const absent = masterFunction({
    summary: 'Lists the accepted minions that are not connected, without contacting them.',
    parameters,
    call: ({ subset }) => {
      const found = new Set(listPresent().map(({ id }) => id));
      const wanted = subset && new Set(subset);
      return acceptedIds().filter((id) => !found.has(id) && (wanted?.has(id) ?? true));
    },
  });
  for (const state of states) {
    table[`manage.${state === 'state' ? 'list_state' : state}`] = present;
    table[`manage.${state === 'state' ? 'list_not_state' : `not_${state}`}`] = absent;
  }
  return table;
}

async function versions(parts: ManageRunnerDeps, context: CallContext): Promise<WireMap> {
  const reported = new Map<string, string | false>(parts.acceptedIds().map((id) => [id, false]));
  const { returns } = await askMinions(parts, { tgt: '*', fun: 'test.version' }, context);
  for (const { minion, return: version, retcode } of returns) {
    reported.set(minion, retcode === 0 && typeof version === 'string' ? version : false);
  }
  const groups = new Map<string, WireMap>();
  for (const [minion, version] of [...reported].sort(([a], [b]) => (a < b ? -1 : 1))) {
    const label = versionLabel(version);
    const group: WireMap = groups.get(label) ?? Object.create(null);
    group[minion] = version;
    groups.set(label, group);
  }
  return { ...Object.fromEntries(groups), Master: parts.version };
}

/**
 * Returns Salt's label for a minion's version, for example `Up to date`. The master compares the
 * version with the supported releases. Salt compares it with the version of the master.
 * @param version - `false`: the minion did not return
 */
function versionLabel(version: string | false): string {
  if (version === false) return 'Minion offline';
  const release = Number.parseInt(version, 10);
  // Versions up to 2019.2 begin with a year. They are older than 3000.
  if (release < served[0]) return 'Minion requires update';
  return release > served[1] ? 'Minion newer than master' : 'Up to date';
}
