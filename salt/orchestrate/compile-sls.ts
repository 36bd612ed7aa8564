/**
 * Renders the SLS files of an orchestration and their includes to high data, with the master's own
 * pillar.
 */

import { randomBytes } from 'node:crypto';
import type { Logger } from 'pino';
import type { WireMap } from '#minion-protocol';
import { unlimitedSteps, WorkBudget } from '#runtime';
import type { AskedFunctions } from '../render/asked-functions.ts';
import { GrainReads, TracedGrains } from '../render/grains.ts';
import { mergeInSlices } from '../render/merge-pillar.ts';
import { isList, isPillarMap, type PillarMap } from '../render/pillar-data.ts';
import type { PillarSource } from '../render/pillar-source.ts';
import type { PillarSources } from '../render/pillar-sources.ts';
import { fromWire, textOf, toWirePillar } from '../render/pillar-wire.ts';
import type { SlsRendering } from '../render/sls-renderer.ts';
import { saltFunctions } from '../render/template-functions.ts';
import type { ConditionFunctions } from './conditions.ts';
import { emptyHigh, type High } from './high-data.ts';
import { HighRenderer } from './high-renderer.ts';

/** Source of the SLS files, and the objects and functions that are needed to render them. */
export interface SlsFiles {
  /** `id` of the master. Salt returns the results of an orchestration under this name. */
  readonly masterId: string;
  readonly sources: PillarSources;
  /** Returns the names of all environments. */
  readonly envs: () => readonly string[];
  readonly pillar: PillarSource;
  /** Returns the current rendering settings. */
  readonly rules: () => SlsRules;
  readonly log: Logger;
}

/** Rendering settings common to all files. */
type SlsRules = Omit<SlsRendering, 'id' | 'grains' | 'opts' | 'pillar' | 'foreign' | 'asked'>;

/** SLS files to render, with the pillar and options for rendering them. */
export interface SlsRequest {
  /** Names of SLS files, or globs. */
  readonly mods: readonly string[];
  readonly saltenv: string;
  readonly pillarenv: string | undefined;
  /**
   * Pillar merged over the master's own pillar. Templates can read it as data. It is never rendered
   * as a template itself.
   */
  readonly pillar: PillarMap;
  /**
   * Whether the caller has all rights. Otherwise, texts of `pillar` that a template prints stay
   * plain values and cannot change the structure of the SLS.
   */
  readonly isTrusted: boolean;
  /** Requester who takes turns with others. `undefined` for the operator. */
  readonly owner: string | undefined;
  /** Value of `opts.test` in templates. */
  readonly test: boolean;
  /** Template functions that the master executes. */
  readonly asked: AskedFunctions;
}

/** Result of rendering the SLS files. */
export interface Compilation {
  readonly high: High;
  /** Errors in Salt's words. */
  readonly errors: readonly string[];
  readonly conditions: ConditionFunctions;
}

/**
 * Renders the SLS files to high data.
 * @throws MasterError ERR_ORCHESTRATION
 * @throws the reason of `signal`
 */
export async function compileSls(
  files: SlsFiles,
  request: SlsRequest,
  signal: AbortSignal,
): Promise<Compilation> {
  const { saltenv, mods } = request;
  const { setting, errors } = await openSetting(files, request);
  const conditions = conditionsOf(setting);
  if (errors.length > 0) {
    const all = ['Pillar failed to render with the following messages:', ...errors];
    return { high: emptyHigh(), errors: all, conditions };
  }
  const { sources, envs } = files;
  const renderer = new HighRenderer({ sources, setting, envs, signal });
  return { ...(await renderer.render(saltenv, mods)), conditions };
}

/**
 * Compiles the master's pillar, and returns the settings for rendering SLS files and evaluating
 * conditions. `errors` contains the errors of the pillar.
 */
export async function openSetting(
  { masterId: id, pillar: source, rules }: Pick<SlsFiles, 'masterId' | 'pillar' | 'rules'>,
  { saltenv, pillarenv, pillar: given, isTrusted, test, asked, owner }: Omit<SlsRequest, 'mods'>,
): Promise<{ readonly setting: SlsRendering; readonly errors: readonly string[] }> {
  const grains: WireMap = { id };
  const answer = await source.provide({ id, grains, saltenv, pillarenv });
  const own = fromWire(answer.pillar);
  const budget = new WorkBudget(unlimitedSteps, owner);
  const pillar = isPillarMap(own)
    ? await mergeInSlices(own, given, { strategy: 'recurse', mergeLists: false }, budget)
    : given;
  const errors = pillar.get('_errors');
  const opts = { id, saltenv, pillarenv, test, file_client: 'local' };
  return {
    setting: {
      ...rules(),
      ...{ id, grains, opts, pillar },
      asked: { ...source.onDemand?.({ id, grains, saltenv }, 'orchestration'), ...asked },
      ...(isTrusted ? {} : foreignWords(given)),
    },
    errors: isList(errors) ? errors.map(textOf) : [],
  };
}

function foreignWords(given: PillarMap): Pick<SlsRendering, 'foreign'> {
  const secret = randomBytes(12).toString('hex');
  return { foreign: { words: { pillar: toWirePillar(given) }, secret } };
}

export function conditionsOf(setting: SlsRendering): ConditionFunctions {
  const grains = new TracedGrains(setting.grains, new GrainReads());
  return saltFunctions({ grains, setting });
}
