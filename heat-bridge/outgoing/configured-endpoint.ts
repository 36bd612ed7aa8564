import { readFileSync } from 'node:fs';
import type { EndpointOptions } from './endpoints.ts';

/** A service as it stands in a section of the configuration. */
export interface ConfiguredEndpoint {
  readonly url: string;
  readonly addresses?: readonly string[];
  /** Path of a PEM file. */
  readonly ca_file?: string;
}

/** Reads its file, once. @throws Error where that cannot be read */
export function readEndpoint({
  url,
  addresses,
  ca_file: file,
}: ConfiguredEndpoint): EndpointOptions {
  return {
    url,
    ...(addresses === undefined ? {} : { addresses }),
    ...(file === undefined ? {} : { ca: readFileSync(file) }),
  };
}
