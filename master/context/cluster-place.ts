import { hostname } from 'node:os';
import type { ClusterOptions } from '#config';

/** Member name and secret file of a cluster configuration. */
export interface MemberFiles {
  readonly member: string;
  readonly secretFile: string;
}

/**
 * Returns the member name and the path of the secret file. By default, a member has the host name
 * as its name.
 */
export function clusterPlaceOf(options: ClusterOptions, stateDir: string): MemberFiles {
  const host = hostname().replace(/[^A-Za-z0-9._-]/g, '-');
  return {
    member: options.member ?? host,
    secretFile: options.secretFile ?? `${stateDir}/cluster.secret`,
  };
}
