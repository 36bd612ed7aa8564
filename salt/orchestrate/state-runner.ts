/** The `state` runner, which runs orchestrations [salt/runners/state.py]. */

import { MasterError, type MasterFunction } from '#master';
import { isWireMap, type WireValue } from '#minion-protocol';
import { type FunctionTable, masterFunction } from '../functions/define-function.ts';
import {
  anything,
  flag,
  ignored,
  names,
  optional,
  required,
  text,
} from '../functions/parameters.ts';
import { saltLimits } from '../limits.ts';
import { isPillarMap, type PillarMap } from '../render/pillar-data.ts';
import { fromWire } from '../render/pillar-wire.ts';
import type { OrchestrationRequest, Orchestrator } from './orchestrator.ts';
import { isSuccess } from './state-result.ts';

const maxMods = saltLimits.orchestrationSls.perOwner ?? Infinity;

interface StateRunnerDeps {
  readonly orchestrator: Orchestrator;
}

/** Parameters of all functions that accept SLS. */
const slsParameters = {
  mods: required(anything),
  saltenv: optional(text, 'base'),
  test: optional(flag, false),
} as const;

const orchestrateParameters = {
  ...slsParameters,
  exclude: optional(anything),
  pillar: optional(anything),
  pillarenv: optional(text),
  pillar_enc: ignored,
  orchestration_jid: optional(text),
} as const;

export function stateRunner({ orchestrator }: StateRunnerDeps): FunctionTable {
  const orchestrate = masterFunction({
    summary: 'Runs an orchestration: SLS files whose states act on minions and on the master.',
    parameters: orchestrateParameters,
    succeeds: (value) => isWireMap(value) && isSuccess(value.data),
    call: (given, context) => {
      const request: OrchestrationRequest = {
        ...orchestrationRequestOf(given),
        exclude: namesOf(given.exclude ?? []),
        orchestrationJid: given.orchestration_jid,
      };
      return orchestrator.orchestrate(request, context);
    },
  });
  const show = masterFunction({
    summary: 'Renders SLS files as for an orchestration, and returns their high data.',
    parameters: {
      ...slsParameters,
      queue: ignored,
      pillar: optional(anything),
      pillarenv: optional(text),
      pillar_enc: ignored,
    },
    call: (given, context) => orchestrator.show(orchestrationRequestOf(given), context),
  });
  return {
    'state.orchestrate': orchestrate,
    'state.orch': orchestrate,
    'state.sls': orchestrate,
    'state.orchestrate_single': singleFunction(orchestrator),
    'state.orchestrate_show_sls': show,
    'state.orch_show_sls': show,
    'state.soft_kill': masterFunction({
      summary: 'Stops an orchestration before its next state, or before the state with a given id.',
      parameters: { jid: required(text), state_id: optional(text) },
      call: ({ jid, state_id: id }, context) => {
        orchestrator.softKill(jid, id, context);
        return null;
      },
    }),
  };
}

function singleFunction(orchestrator: Orchestrator): MasterFunction {
  return masterFunction({
    summary: 'Runs one state on the master without an SLS file.',
    parameters: {
      fun: required(text),
      name: required(text),
      test: optional(flag, false),
      queue: ignored,
      pillar: optional(anything),
    },
    takesMore: true,
    call: async ({ fun, name, test, pillar }, context, more) => {
      const args = new Map(Object.entries(more).map(([key, value]) => [key, fromWire(value)]));
      const request = { fun, name, test, args, pillar: pillarOf(pillar) };
      const data = await orchestrator.single(request, context);
      context.emit('progress', { data, outputter: 'highstate' });
      return data;
    },
  });
}

interface GivenSls {
  readonly mods: WireValue;
  readonly saltenv: string;
  readonly test: boolean;
  readonly pillar: WireValue | undefined;
  readonly pillarenv: string | undefined;
}

function orchestrationRequestOf({
  mods,
  pillar,
  ...more
}: GivenSls): Pick<OrchestrationRequest, keyof GivenSls> {
  return {
    mods: namesOf(mods),
    saltenv: more.saltenv,
    test: more.test,
    pillarenv: more.pillarenv,
    pillar: pillarOf(pillar),
  };
}

/**
 * Parses a list, or names separated by commas.
 * @throws MasterError ERR_ARGS
 */
function namesOf(value: WireValue): readonly string[] {
  const given = Array.isArray(value) ? value : [value];
  if (given.length > maxMods) throw tooManyNames();
  // Maps from the wire cannot be converted to text.
  if (given.some((it) => typeof it === 'object')) {
    throw new MasterError('ERR_ARGS', '`mods` must be a name or a list of names');
  }
  const list = Array.isArray(value) ? value.map(String) : names.parse(String(value));
  if (list === undefined || list.length > maxMods) throw tooManyNames();
  return list;
}

function tooManyNames(): MasterError {
  return new MasterError(
    'ERR_ARGS',
    `\`mods\` and \`exclude\` may have at most ${maxMods} names each`,
  );
}

/**
 * Parses pillar data.
 * @throws MasterError ERR_ARGS
 */
function pillarOf(value: WireValue | undefined): PillarMap {
  if (value === undefined || value === null) return new Map();
  const pillar = fromWire(value);
  if (isPillarMap(pillar)) return pillar;
  throw new MasterError('ERR_ARGS', 'Pillar data must be formatted as a dictionary');
}
