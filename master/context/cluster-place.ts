import { hostname } from 'node:os';
import type { ClusterOptions } from '#config';

/** Where a cluster of a configuration is. */
export interface ClusterPlace {
  readonly member: string;
  readonly secretFile: string;
}

/** The name of a member where none is configured: that of the host. */
export function clusterPlaceOf(options: ClusterOptions, stateDir: string): ClusterPlace {
  const host = hostname().replace(/[^A-Za-z0-9._-]/g, '-');
  return {
    member: options.member ?? host,
    secretFile: options.secretFile ?? `${stateDir}/cluster.secret`,
  };
}
