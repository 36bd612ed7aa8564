/** Computes this master's answers to the cases of the differential campaign. */

import { mkdirSync, rmSync } from 'node:fs';
import path from 'node:path';
import { resolveMasterConfig } from '#config';
import { createSilentLogger, type Master, SlowPatternRunner } from '#master';
import { TargetResolver } from '#master/jobs/targets.ts';
import { factsOf, isWireMap, type WireMap, type WireValue } from '#minion-protocol';
import { isTargetType } from '#minion-protocol/targeting/target.ts';
import { createMemoryTransport } from '#minion-protocol/transport/memory-transport.ts';
import type { PillarConfig } from '#salt/pillar/own-pillar.ts';
import { openPillar } from '#salt/pillar/pillar.ts';
import { createMaster } from '#server';
import { createMemoryStore } from '#store';
import { Dict, Float, TemplateError } from '#template';
import { Bytes, Markup, PySet, Tuple } from '#template/python/values.ts';
import { loadYaml } from '#template/yaml.ts';
import { layOut } from '../../helpers/file-tree.ts';
import { renderText } from '../../helpers/jinja.ts';
import { toWireValue } from '../../helpers/vectors.ts';
import { type Question, surroundings } from './cases.ts';

/** Answer to a case: a value in canonical form, or the code of an error. */
export interface Answer {
  readonly value?: string;
  readonly error?: string;
  readonly message?: string;
}

/**
 * Returns a text that is equal for equal values. It distinguishes types and ignores the order of
 * keys.
 */
function canonical(value: unknown): string {
  if (value === null) return 'null';
  if (typeof value === 'boolean' || typeof value === 'bigint') return String(value);
  if (typeof value === 'number') return Number.isInteger(value) ? String(value) : float(value);
  if (value instanceof Float) return float(value.value);
  if (typeof value === 'string') return jsonText(value);
  if (value instanceof Markup) return jsonText(value.text);
  if (value instanceof Bytes) return `bytes:${Buffer.from(value.bytes).toString('hex')}`;
  if (value instanceof Uint8Array) return `bytes:${Buffer.from(value).toString('hex')}`;
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  if (value instanceof Tuple) return `[${value.items.map(canonical).join(',')}]`;
  if (value instanceof PySet || value instanceof Set)
    return `set:[${[...value.values()].map(canonical).sort(byCodePoint).join(',')}]`;
  if (value instanceof Dict || value instanceof Map) return pairs([...value.entries()]);
  if (typeof value === 'object') return pairs(Object.entries(value));
  return `other:${typeof value}`;
}

function pairs(entries: readonly (readonly [unknown, unknown])[]): string {
  const texts = entries.map(([key, inner]) => `${canonical(key)}:${canonical(inner)}`);
  return `{${texts.sort(byCodePoint).join(',')}}`;
}

function byCodePoint(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}

function float(value: number): string {
  if (Number.isNaN(value)) return 'nan';
  const bytes = Buffer.alloc(8);
  bytes.writeDoubleBE(value);
  return `float:${bytes.toString('hex')}`;
}

/** Writes a text like Python's json.dumps, with ASCII characters only. */
function jsonText(text: string): string {
  const escaped = JSON.stringify(text).replaceAll(
    /[\u007f-\uffff]/g,
    (it) => `\\u${it.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
  return escaped.replaceAll('\\u007f', '\u007f');
}

/** Answers cases. Its files are below a directory. */
export class Ours {
  readonly #directory: string;
  readonly #slowPatterns = new SlowPatternRunner();
  #trees = 0;
  #master: Promise<Master> | undefined;

  constructor(directory: string) {
    this.#directory = directory;
    mkdirSync(directory, { recursive: true });
  }

  async answer(it: Question): Promise<Answer> {
    try {
      return { value: await this.#answer(it) };
    } catch (error) {
      if (error instanceof TemplateError) return { error: error.code, message: error.message };
      if (!(error instanceof Error)) throw error;
      const code = 'code' in error ? String(error.code) : error.name;
      return { error: code, message: error.message };
    }
  }

  #answer(it: Question): Promise<string> | string {
    switch (it.kind) {
      case 'yaml':
        return canonical(loadYaml(it.text, { name: 'x.sls' }));
      case 'template':
        return canonical(
          renderText(it.text, {
            name: '<string>',
            context: { grains: surroundings.grains, pillar: {}, saltenv: 'base', sls: '' },
            loader: {
              load: (name) =>
                Object.hasOwn(surroundings.files, name) ? surroundings.files[name] : undefined,
            },
          }),
        );
      case 'pillar':
        return this.#pillar(it);
      case 'target':
        return this.#target(it);
      case 'orchestration':
        return this.#orchestration(it);
    }
  }

  async #pillar(it: Extract<Question, { kind: 'pillar' }>): Promise<string> {
    this.#trees += 1;
    const place = path.join(this.#directory, `pillar-${this.#trees}`);
    layOut(place, it.files);
    const config: PillarConfig = {
      ...resolveMasterConfig({
        rootDir: this.#directory,
        ...optionsOf(it.options),
        pillarRoots: Object.fromEntries(it.roots.map((root) => [root, [path.join(place, root)]])),
      }),
      stateDir: path.join(this.#directory, 'state'),
    };
    const pillar = await openPillar(config, { log: createSilentLogger(), now: Date.now });
    try {
      const request = { id: 'web1', grains: mapOf({ ...surroundings.grains, id: 'web1' }) };
      const { pillar: made } = await pillar.provide({
        ...request,
        saltenv: it.saltenv ?? undefined,
        pillarenv: it.pillarenv ?? undefined,
      });
      const entries = made instanceof Map ? [...made] : Object.entries(made);
      const data = new Map(entries.filter(([key]) => key !== '_errors'));
      const errors = data.size < entries.length;
      return canonical(data) + (errors ? ' with errors' : '');
    } finally {
      await pillar.close();
      rmSync(place, { recursive: true, force: true });
    }
  }

  async #orchestration(it: Extract<Question, { kind: 'orchestration' }>): Promise<string> {
    this.#master ??= this.#startMaster();
    const master = await this.#master;
    const place = path.join(this.#directory, 'files', it.folder);
    layOut(place, it.files);
    const call = {
      fun: 'state.orchestrate',
      arg: [`${it.folder}.site`],
      kwarg: it.test === null ? {} : { test: it.test },
    };
    const { return: value, success } = await master.runners.run(call);
    rmSync(place, { recursive: true, force: true });
    const data = isWireMap(value) ? value.data : undefined;
    if (!isWireMap(data)) throw new Error(`${success} ${JSON.stringify(value)}`);
    return canonical(withoutTimes(data.north_master));
  }

  async #startMaster(): Promise<Master> {
    const config = resolveMasterConfig({
      rootDir: path.join(this.#directory, 'master'),
      id: 'north_master',
      fileRoots: { base: [path.join(this.#directory, 'files')] },
      fileserverListCacheTime: 0,
    });
    const store = createMemoryStore({ now: Date.now });
    const master = createMaster({
      config,
      store,
      transports: [createMemoryTransport().master],
      logger: createSilentLogger(),
    });
    await master.start();
    return master;
  }

  /** Stops the master that orchestrations use. */
  async close(): Promise<void> {
    await (await this.#master)?.close();
  }

  async #target(it: Extract<Question, { kind: 'target' }>): Promise<string> {
    const ids = Object.keys(surroundings.minions).sort();
    const resolver = new TargetResolver({
      acceptedIds: () => ids,
      isAccepted: (id) => ids.includes(id),
      factsOf: (id) => {
        const facts = surroundings.minions[id] ?? undefined;
        if (facts === undefined) return { grains: undefined, pillar: undefined };
        const { grains, pillar } = mapOf(facts);
        return { grains: factsOf(mapOf(grains)), pillar: factsOf(mapOf(pillar)) };
      },
      isDataCached: true,
      nodegroups: surroundings.nodegroups,
      slowPatterns: this.#slowPatterns,
    });
    if (!isTargetType(it.tgtType)) throw new TypeError(`not a target type: ${it.tgtType}`);
    const { minions, missing } = await resolver.resolve({
      tgt: it.tgt,
      tgtType: it.tgtType,
    });
    return canonical({ minions: new Set(minions), missing: new Set(missing) });
  }
}

/** Removes times from results of states. */
function withoutTimes(value: WireValue | undefined): unknown {
  if (!isWireMap(value)) return value;
  const entries = Object.entries(value).filter(
    ([key]) => !['start_time', 'duration'].includes(key),
  );
  return new Map(entries.map(([key, inner]) => [key, withoutTimes(inner)]));
}

function mapOf(value: unknown): WireMap {
  const map = toWireValue(JSON.parse(JSON.stringify(value ?? {})));
  if (!isWireMap(map)) throw new TypeError('not a map');
  return map;
}

/** Converts Salt's names of options to the names in this program. */
function optionsOf(options: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(options).map(([name, value]) => [
      name.replaceAll(/_(\w)/g, (_, letter: string) => letter.toUpperCase()),
      value,
    ]),
  );
}
