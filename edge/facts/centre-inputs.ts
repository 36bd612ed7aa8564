/**
 * Stores the last report of each site about its compiled pillars and the grains that they depend
 * on.
 */

import Type from 'typebox';
import type { ExtensionHost, StateOperation } from '#master';
import { packLocal } from '#minion-protocol';
import { Bytes, defineRow, type Entry } from '#store';
import { EdgeError } from '../errors.ts';
import type { LogEntry, LogIngest } from '../log/log.ts';
import { decodeValue } from '../log/log-codec.ts';
import { inputsCheck, inputsKind, type SiteInputs } from './inputs-entry.ts';

const Time = Type.Integer({ minimum: 0 });
const inputsRow = defineRow({
  name: 'inputs of the pillars of a site',
  schema: Type.Object({ at: Time, receivedAt: Time, inputs: Bytes }),
});
const prefix = ['centre', 'inputs'];

/** Last report of a site about its pillars. */
export interface SiteInputsReport extends SiteInputs {
  readonly site: string;
  /** Time of the report, by the clock of the site, in milliseconds since 1970. */
  readonly at: number;
  readonly receivedAt: number;
}

/**
 * Reports of several sites about their compiled pillars, with the total numbers, and the grains
 * that these pillars depend on.
 */
export interface InputsOfSites {
  /**
   * Number of shared compiled pillars at all sites in `sites`. A shared pillar serves all minions
   * with equal inputs. `own` is the number of compiled pillars that serve only one minion.
   */
  readonly shared: number;
  readonly own: number;
  /**
   * Grains that the pillars depend on. `pillars` is a sum over all sites. `values` is not: it is
   * the highest number of different values at any one site.
   */
  readonly grains: SiteInputs['grains'];
  readonly sites: readonly SiteInputsReport[];
  /** Names of the requested sites that have not sent this report. */
  readonly unknown: readonly string[];
}

export interface CentreInputsOptions {
  readonly host: Pick<ExtensionHost, 'now' | 'shared'>;
  readonly ingest: LogIngest;
  /** Returns the names of all joined sites. */
  readonly joined: () => readonly string[];
}

export class CentreInputs {
  readonly #options: CentreInputsOptions;

  constructor(options: CentreInputsOptions) {
    this.#options = options;
    options.ingest.on(inputsKind, { operations: (entry) => this.#store(entry) });
  }

  /**
   * Returns the report of a site, or the reports of all sites if `site` is absent, together with
   * their totals.
   */
  async list(site?: string): Promise<InputsOfSites> {
    const { joined } = this.#options;
    const sites: SiteInputsReport[] = [];
    for await (const { key, value } of this.#entriesOf(site)) {
      sites.push(readReport(key.at(-1) ?? '', { key, value }));
    }
    const known = new Set(sites.map((it) => it.site));
    const asked = site === undefined ? joined() : [site];
    return { ...sumOf(sites), sites, unknown: asked.filter((name) => !known.has(name)) };
  }

  /** Deletes the report of a site that was revoked or has left. */
  async forget(site: string): Promise<void> {
    await this.#options.host.shared.write([{ op: 'delete', key: [...prefix, site] }]);
  }

  /** Yields the row of a site, or the rows of all sites if `site` is absent. */
  async *#entriesOf(site: string | undefined): AsyncGenerator<Entry, void, void> {
    const { shared } = this.#options.host;
    if (site === undefined) return yield* shared.list(prefix);
    const entry = await shared.get([...prefix, site]);
    if (entry !== undefined) yield entry;
  }

  #store({ site, value, at }: LogEntry): readonly StateOperation[] {
    if (!inputsCheck.Check(value)) {
      throw new EdgeError('ERR_SITE_MESSAGE', 'the inputs of the pillars are malformed');
    }
    const grains = value.grains.map((it) => ({ ...it }));
    const row = {
      at: at.ms,
      receivedAt: this.#options.host.now(),
      inputs: packLocal({ ...value, grains }),
    };
    return [{ op: 'put', key: [...prefix, site], value: inputsRow.encode(row) }];
  }
}

function readReport(
  site: string,
  entry: { readonly key: readonly string[]; readonly value: Uint8Array },
): SiteInputsReport {
  const { at, receivedAt, inputs } = inputsRow.decode(entry);
  return { site, at, receivedAt, ...inputsCheck.Parse(decodeValue(inputs)) };
}

function sumOf(sites: readonly SiteInputs[]): SiteInputs {
  const grains = new Map<string, SiteInputs['grains'][number]>();
  for (const { grain, values, pillars, isShared } of sites.flatMap((it) => it.grains)) {
    const known = grains.get(grain) ?? { grain, values: 0, pillars: 0, isShared: true };
    grains.set(grain, {
      grain,
      values: Math.max(known.values, values),
      pillars: known.pillars + pillars,
      isShared: known.isShared && isShared,
    });
  }
  const rows = [...grains.values()];
  rows.sort((a, b) => b.values - a.values || (a.grain < b.grain ? -1 : 1));
  const sum = (count: (site: SiteInputs) => number): number =>
    sites.reduce((total, site) => total + count(site), 0);
  return { shared: sum((it) => it.shared), own: sum((it) => it.own), grains: rows };
}
