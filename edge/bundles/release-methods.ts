/** RPC methods about releases. The command line calls them over the local socket. */

import Type from 'typebox';
import { extensionMethod, type RpcTable } from '#master';
import { ClaimsQuery, type KeyClaim } from './key-claims.ts';
import type { OnlineKeys } from './tuf-repository.ts';

/** Metadata of The Update Framework, encoded in base64 for RPC. */
const Base64 = Type.String({ maxLength: 1_000_000, pattern: '^[A-Za-z0-9+/]*={0,2}$' });

/**
 * Maximum value of {@link ReleaseRequest.above}. It is low enough that many later versions remain
 * possible.
 */
const maxAbove = 2 ** 31;

const strict = { additionalProperties: false };
const none = Type.Object({}, strict);

/**
 * New release whose metadata are not signed yet. The command line signs them with the keys of the
 * role `targets`.
 */
export interface ProposedRelease {
  readonly version: number;
  readonly files: number;
  readonly bytes: number;
  readonly warnings: readonly string[];
  /** Unsigned TUF targets metadata, in base64. */
  readonly targets: string;
  /** Public keys of the role `targets`, in hexadecimal digits. */
  readonly keys: readonly string[];
}

/** Release and its progress, as the command line shows it. */
export interface ReleaseState {
  readonly version: number;
  readonly state: string;
  /** Names of the rings (groups of sites), in the order in which they install the release. */
  readonly rings: readonly string[];
  /**
   * Name of the last ring whose sites may install the release now. Sites of all earlier rings in
   * `rings` may install it too.
   */
  readonly ring: string;
  readonly createdAt: number;
  /** Number of sites that use the release. */
  readonly installed: number;
  readonly failed: readonly {
    readonly site: string;
    readonly code: string;
    readonly message: string;
  }[];
}

/** Parameters of a new release. */
export interface ReleaseRequest {
  /**
   * Version of an earlier release whose files the new release gets. Default: files of the source
   * directory.
   */
  readonly contentOf?: number;
  /**
   * Lower bound: the version of the new release must be higher than this. The release gets the next
   * version of this centre, or `above + 1` if that is higher. Default: 0.
   */
  readonly above?: number;
}

export interface ReleasesApi {
  onlineKeys(areNew: boolean): Promise<OnlineKeys>;
  /** Returns the current TUF root metadata in base64, or `null` if no keys were created yet. */
  root(): Promise<string | null>;
  setRoot(root: string): Promise<void>;
  /**
   * Creates a release from the files in the source directory, or with the files of an earlier
   * release.
   */
  propose(request: ReleaseRequest): Promise<ProposedRelease>;
  publish(version: number, targets: string): Promise<ReleaseState>;
  hold(): Promise<ReleaseState>;
  resume(): Promise<ReleaseState>;
  list(): Promise<readonly ReleaseState[]>;
  /** Returns a page of the minion keys that operators of sites have accepted. */
  claims(query: ClaimsQuery): Promise<readonly KeyClaim[]>;
}

/** Creates the RPC methods about releases. Their names begin with `releases.`. */
export function releaseMethods(api: ReleasesApi): RpcTable {
  const ofRelease = ({ version }: ReleaseState): { what: string } => ({
    what: `release ${version}`,
  });
  return {
    releases: {
      onlineKeys: extensionMethod({
        parameters: Type.Object({ areNew: Type.Boolean() }, strict),
        call: (_, { areNew }) => api.onlineKeys(areNew),
      }),
      root: extensionMethod({ parameters: none, call: () => api.root() }),
      setRoot: extensionMethod({
        parameters: Type.Object({ root: Base64 }, strict),
        call: async (_, { root }) => {
          await api.setRoot(root);
          return {};
        },
        audit: { action: 'site.keys', done: () => ({ what: 'root of the releases' }) },
      }),
      propose: extensionMethod({
        parameters: Type.Object(
          {
            contentOf: Type.Optional(Type.Integer({ minimum: 1 })),
            above: Type.Optional(Type.Integer({ minimum: 1, maximum: maxAbove })),
          },
          strict,
        ),
        call: (_, request) => api.propose(request),
      }),
      publish: extensionMethod({
        parameters: Type.Object({ version: Type.Integer({ minimum: 1 }), targets: Base64 }, strict),
        call: (_, { version, targets }) => api.publish(version, targets),
        audit: { action: 'site.publish', done: (_, release) => ofRelease(release) },
      }),
      hold: extensionMethod({
        parameters: none,
        call: () => api.hold(),
        audit: { action: 'site.hold', done: (_, release) => ofRelease(release) },
      }),
      resume: extensionMethod({
        parameters: none,
        call: () => api.resume(),
        audit: { action: 'site.resume', done: (_, release) => ofRelease(release) },
      }),
      list: extensionMethod({ parameters: none, call: () => api.list() }),
      claims: extensionMethod({
        parameters: ClaimsQuery,
        call: (_, query) => api.claims(query),
      }),
    },
  };
}
