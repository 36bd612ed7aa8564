/** Renders SLS files with their includes [salt/state.py render_highstate, render_state]. */

import { MasterError } from '#master';
import { TemplateError } from '#template';
import { saltLimits } from '../limits.ts';
import { isList, isPillarMap } from '../render/pillar-data.ts';
import type { PillarSources } from '../render/pillar-sources.ts';
import { textOf } from '../render/pillar-wire.ts';
import { Reads } from '../render/reads.ts';
import { findSls, SlsRenderer, type SlsRendering } from '../render/sls-renderer.ts';
import type { SourceFile } from '../render/source-file.ts';
import { emptyHigh, firstOf, type High, mapOf, mergeHigh } from './high-data.ts';
import { matching, resolveInclude, type SlsNames } from './resolve-include.ts';
import { readDeclarations, type SlsPlace } from './sls-declarations.ts';

/** Sources and settings for rendering the SLS of one run. */
interface HighRenderingOptions {
  readonly sources: PillarSources;
  readonly setting: SlsRendering;
  /** Returns the names of all environments. */
  readonly envs: () => readonly string[];
  readonly signal: AbortSignal;
}

const maxSls = saltLimits.orchestrationSls.perOwner ?? Infinity;
/** Maximum depth of includes. */
const maxDepth = 50;
/** Value of `order` for the first state that does not set it. */
const firstOrder = 10_000;

/** Renders the SLS files of one orchestration with their includes. */
export class HighRenderer implements SlsNames {
  readonly #options: HighRenderingOptions;
  readonly #reads: Reads;
  readonly #renderer: SlsRenderer;
  readonly #done = new Set<string>();
  readonly #errors: string[] = [];
  #runEnv = '';
  #order = firstOrder;

  constructor(options: HighRenderingOptions) {
    this.#options = options;
    this.#reads = new Reads(options.sources);
    this.#renderer = new SlsRenderer(options.setting, this.#reads);
  }

  envs(): readonly string[] {
    return this.#options.envs();
  }

  names(saltenv: string): Promise<ReadonlySet<string>> {
    return this.#reads.names(saltenv);
  }

  /**
   * Renders SLS with their includes.
   * @param mods - names of SLS, or globs
   * @throws MasterError ERR_ORCHESTRATION if there are too many SLS, ERR_MASTER_STOPPED
   */
  async render(
    saltenv: string,
    mods: readonly string[],
  ): Promise<{ readonly high: High; readonly errors: readonly string[] }> {
    const high = emptyHigh();
    this.#runEnv = saltenv;
    for (const pattern of mods) {
      for (const sls of await this.#meantBy(pattern, saltenv)) {
        if (this.#done.has(markOf({ sls, saltenv }))) continue;
        const before = this.#errors.length;
        mergeHigh(high, await this.#renderSls({ sls, saltenv }, 0), this.#errors);
        this.#rename(before, pattern, saltenv);
      }
    }
    return { high, errors: this.#errors };
  }

  /**
   * Resolves a glob to names of SLS. A pattern without a match is returned unchanged, and a later
   * step reports it as a missing SLS.
   */
  async #meantBy(pattern: string, saltenv: string): Promise<readonly string[]> {
    if (!this.envs().includes(saltenv)) {
      this.#errors.push(`No matching salt environment for environment '${saltenv}' found`);
      return [pattern];
    }
    const found = matching(await this.names(saltenv), pattern);
    return found.length === 0 ? [pattern] : found;
  }

  /**
   * Replaces the error about a missing SLS if the caller requested this SLS by name. Salt has a
   * separate text for this case.
   * @param from - index of the first error to check
   */
  #rename(from: number, pattern: string, saltenv: string): void {
    for (const [index, error] of this.#errors.entries()) {
      if (index < from || !error.includes('is not available')) continue;
      if (!error.includes(`SLS ${pattern} in saltenv`)) continue;
      this.#errors[index] = `No matching sls found for '${pattern}' in env '${saltenv}'`;
    }
  }

  async #renderSls(place: SlsPlace, depth: number): Promise<High> {
    this.#options.signal.throwIfAborted();
    if (this.#done.size >= maxSls) throw tooMuch(`more than ${maxSls} SLS`);
    if (depth > maxDepth) throw tooMuch(`includes nested more than ${maxDepth} deep`);
    this.#done.add(markOf(place));
    const { sls, saltenv } = place;
    const file = await this.#find(place);
    if (file === undefined) {
      this.#errors.push(
        `Specified SLS ${sls} in saltenv ${saltenv} is not available on the salt master or ` +
          'through a configured fileserver',
      );
      return emptyHigh();
    }
    return this.#readSls(file, place, depth);
  }

  async #find({ sls, saltenv }: SlsPlace): Promise<SourceFile | undefined> {
    return this.envs().includes(saltenv) ? findSls(this.#reads, sls, saltenv) : undefined;
  }

  async #readSls(file: SourceFile, place: SlsPlace, depth: number): Promise<High> {
    const data = await this.#data(file, place);
    if (data === undefined) return emptyHigh();
    if (!isPillarMap(data)) {
      this.#errors.push(
        `SLS ${place.sls} does not render to a dictionary`,
        `Error when rendering state with contents: ${textOf(data)}`,
      );
      return emptyHigh();
    }
    const { include, ...high } = readDeclarations(data, place, this.#errors);
    const from = { ...place, isInit: file.path.endsWith('/init.sls'), runEnv: this.#runEnv };
    for (const item of include) {
      const included = await resolveInclude(item, from, this);
      if ('error' in included) this.#errors.push(included.error);
      else for (const one of included) await this.#include(one, place, high, depth);
    }
    this.#giveOrder(high);
    return high;
  }

  async #data(file: SourceFile, place: SlsPlace): ReturnType<SlsRenderer['render']> {
    try {
      return await this.#renderer.render(file, { ...place, defaults: new Map() });
    } catch (error) {
      if (!(error instanceof TemplateError) && !(error instanceof MasterError)) throw error;
      const { sls, saltenv } = place;
      this.#errors.push(`Rendering SLS '${saltenv}:${sls}' failed: ${error.message}`);
      return new Map();
    }
  }

  async #include(place: SlsPlace, by: SlsPlace, high: High, depth: number): Promise<void> {
    if (this.#done.has(markOf(place))) return;
    const included = await this.#renderSls(place, depth + 1);
    for (const [id, body] of included.bodies) {
      included.bodies.set(id, { ...body, includedFrom: [...body.includedFrom, by.sls] });
    }
    mergeHigh(high, included, this.#errors);
  }

  /**
   * Numbers the states of an SLS with the argument `order`, unless they set it themselves. The
   * states run in the order of the file, after the states of included SLS [_handle_iorder].
   */
  #giveOrder(high: High): void {
    for (const [id, body] of high.bodies) {
      const states = new Map(body.states);
      for (const [state, said] of states) {
        if (!isList(said) || said.some((argument) => firstOf(argument)?.[0] === 'order')) continue;
        states.set(state, [...said, mapOf('order', this.#order)]);
        this.#order += 1;
      }
      high.bodies.set(id, { ...body, states });
    }
  }
}

function markOf({ sls, saltenv }: SlsPlace): string {
  return `${saltenv}:${sls}`;
}

function tooMuch(what: string): MasterError {
  return new MasterError('ERR_ORCHESTRATION', `orchestration rejected: it has ${what}`);
}
