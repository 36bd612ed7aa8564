/**
 * Minion ids that sites have claimed. The first site that reports a minion owns its id. Facts,
 * signals and returns of other sites about this id are refused.
 */

import Type from 'typebox';
import { bridgeServices } from '#heat-bridge';
import type { ExtensionHost, StateOperation } from '#master';
import { isValidMinionId } from '#minion-protocol';
import { defineRow } from '#store';
import { EdgeError } from '../errors.ts';
import { edgeLimits } from '../limits.ts';

const claimRow = defineRow({
  name: 'claim of a minion',
  schema: Type.Object({
    site: Type.String(),
    /** Size of the facts of the minion, in bytes. */
    factBytes: Type.Optional(Type.Integer({ minimum: 0 })),
  }),
});

/** Site that owns a minion id. */
interface Owner {
  readonly site: string;
  /**
   * Revision of the row with the claim. `undefined` if it is not known whether the claim is stored.
   */
  readonly revision: number | undefined;
}

/** Minions of a site, with the size of the reported data (facts) of each. */
interface SiteClaims {
  readonly factBytes: Map<string, number>;
  total: number;
}

const prefix = ['centre', 'minion'] as const;

/** Functions of the master that {@link MinionClaims} uses. */
type ClaimsHost = Pick<ExtensionHost, 'admission' | 'find' | 'shared'>;

export class MinionClaims {
  readonly #host: ClaimsHost;
  readonly #owners = new Map<string, Owner>();
  readonly #bySite = new Map<string, SiteClaims>();

  private constructor(host: ClaimsHost) {
    this.#host = host;
  }

  static async open(host: ClaimsHost): Promise<MinionClaims> {
    const claims = new MinionClaims(host);
    await host.shared.follow([...prefix], (change) => {
      if (change.type === 'put') {
        const { entry } = change;
        const { site, factBytes = 0 } = claimRow.decode(entry);
        const { revision } = entry;
        claims.#set(entry.key.at(-1) ?? '', { site, revision }, factBytes);
      } else claims.#set(change.key.at(-1) ?? '', undefined);
    });
    return claims;
  }

  /** Returns the site that has claimed a minion, or `undefined`. */
  siteOf(minion: string): string | undefined {
    return this.#owners.get(minion)?.site;
  }

  /** Names of the sites that have claimed minions. */
  get sites(): readonly string[] {
    return [...this.#bySite.keys()];
  }

  /**
   * Returns the ids of the minions that belong to a site. A minion belongs to the first site that
   * reported it.
   */
  minionsOf(site: string): readonly string[] {
    return [...(this.#bySite.get(site)?.factBytes.keys() ?? [])];
  }

  /** Number of claimed minions, summed over all sites. */
  get size(): number {
    return this.#owners.size;
  }

  /**
   * Checks that a site may claim a minion.
   * @param factBytes - size of new facts of the minion. Default: the size of its known facts
   * @throws EdgeError ERR_SITE_MESSAGE if the centre or another site has a minion with this id, if
   * the centre enrols a machine with it, or if the site has too many minions or facts
   */
  require(site: string, minion: string, factBytes?: number): void {
    if (!isValidMinionId(minion)) throw refused(minion, 'its id is not valid');
    this.requireFree(site, minion);
    const owner = this.#owners.get(minion);
    const ofSite = this.#bySite.get(site);
    const { perOwner = 0 } = edgeLimits.minions;
    if (owner === undefined && (ofSite?.factBytes.size ?? 0) >= perOwner) {
      throw refused(minion, `the site already has ${perOwner} minions, which is the maximum`);
    }
    const before = ofSite?.factBytes.get(minion) ?? 0;
    const bytes = factBytes ?? before;
    const most = edgeLimits.factBytes.perOwner ?? 0;
    if (bytes > before && (ofSite?.total ?? 0) - before + bytes > most) {
      throw refused(minion, `the facts of the site would exceed ${most} bytes`);
    }
  }

  /**
   * Checks that neither the centre nor another site has a minion. The site itself need not have
   * claimed it.
   * @throws EdgeError ERR_SITE_MESSAGE
   */
  requireFree(site: string, minion: string): void {
    const owner = this.#owners.get(minion);
    const isOfAnother = owner !== undefined && owner.site !== site;
    // A site must not learn which of the two has the minion.
    if (isOfAnother || this.#isOfCentre(minion)) {
      throw refused(minion, 'the centre or another site has a minion with this id');
    }
  }

  /** Whether the centre itself has a key of a minion, in any state, or a ticket for a machine. */
  #isOfCentre(minion: string): boolean {
    const host = this.#host;
    if (host.admission.keyOf(minion) !== undefined) return true;
    return host.find(bridgeServices.enrolment)?.enrolments.liveOf(minion) !== undefined;
  }

  /**
   * Claims a minion for a site. Call this method after all other checks of an entry, because the
   * claim stays in memory even if the caller then refuses the entry.
   * @param factBytes - size of new facts of the minion. Default: the size of its known facts
   * @returns store operations that record the claim. In a cluster, their write fails if another
   * site has claimed the minion at another member meanwhile
   * @throws EdgeError ERR_SITE_MESSAGE if the site may not claim the minion, see {@link require}
   */
  async claim(
    site: string,
    minion: string,
    factBytes?: number,
  ): Promise<readonly StateOperation[]> {
    this.require(site, minion, factBytes);
    const owner = this.#owners.get(minion);
    const before = this.#bySite.get(site)?.factBytes.get(minion) ?? 0;
    const bytes = factBytes ?? before;
    const revision = owner?.revision;
    this.#set(minion, { site, revision }, bytes);
    const key = [...prefix, minion];
    // The write of an existing claim is repeated, because the earlier write may have failed.
    const put = { op: 'put', key, value: claimRow.encode({ site, factBytes: bytes }) } as const;
    // Outside a cluster, no other process claims minions, and revisions are not followed.
    if (this.#host.shared.cluster === undefined) return [put];
    const isStored = revision !== undefined && bytes === before;
    if (isStored) return [{ op: 'require', key, ifRevision: revision }];
    return [{ ...put, ifRevision: revision ?? 0 }];
  }

  /**
   * Removes all claims of a site, and the facts of its minions. Returns the ids of these minions.
   */
  async release(site: string): Promise<readonly string[]> {
    const minions = this.minionsOf(site);
    for (const minion of minions) {
      await this.#host.shared.write([
        { op: 'delete', key: [...prefix, minion] },
        { op: 'delete', key: ['centre', 'fact', minion] },
      ]);
      // In a cluster, `follow` reports this change, and later changes in their order.
      if (this.#host.shared.cluster === undefined) this.#set(minion, undefined);
    }
    return minions;
  }

  #set(minion: string, owner: Owner | undefined, factBytes = 0): void {
    const before = this.#owners.get(minion);
    if (before !== undefined) this.#remove(minion, before.site);
    if (owner === undefined) return;
    const { site } = owner;
    this.#owners.set(minion, owner);
    const ofSite = this.#bySite.get(site) ?? { factBytes: new Map(), total: 0 };
    ofSite.factBytes.set(minion, factBytes);
    ofSite.total += factBytes;
    this.#bySite.set(site, ofSite);
  }

  #remove(minion: string, site: string): void {
    this.#owners.delete(minion);
    const ofSite = this.#bySite.get(site);
    if (ofSite === undefined) return;
    ofSite.total -= ofSite.factBytes.get(minion) ?? 0;
    ofSite.factBytes.delete(minion);
    if (ofSite.factBytes.size === 0) this.#bySite.delete(site);
  }
}

function refused(minion: string, reason: string): EdgeError {
  return new EdgeError('ERR_SITE_MESSAGE', `minion ${minion.slice(0, 256)} refused: ${reason}`);
}
