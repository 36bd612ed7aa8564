/** The certificate of the HTTP API. It is read at the start and again when its files change. */
import { readFile } from 'node:fs/promises';
import type { Server } from 'node:net';
import { type SecureContextOptions, Server as SecureServer } from 'node:tls';
import type { Logger } from 'pino';
import { handshakeOptions } from '#minion-protocol';
import { describeSystemError, FileReloader } from '#runtime';
import { SaltApiError } from './errors.ts';
import type { SaltApiTls } from './options.ts';

/** Contents of the files that {@link SaltApiTls} names: certificate, key, chain. */
export type TlsContents = readonly Buffer[];

/**
 * Names of the options that contain the paths of the certificate, its key and its chain, in this
 * order.
 */
const optionNames = ['ssl_crt', 'ssl_key', 'ssl_chain'] as const;

/**
 * Reads the files of a certificate.
 * @throws SaltApiError ERR_HTTP_LISTEN
 */
export async function readTls(tls: SaltApiTls): Promise<TlsContents> {
  return Promise.all(
    filesOf(tls).map(async (file, index) => {
      try {
        return await readFile(file);
      } catch (cause) {
        const reason = describeSystemError(cause) ?? file;
        const message = `${optionNames[index]}: cannot read the file: ${reason}`;
        throw new SaltApiError('ERR_HTTP_LISTEN', message, { cause });
      }
    }),
  );
}

/** Returns the TLS options of a server. */
export function secureContextOf([
  certificate = Buffer.alloc(0),
  key = Buffer.alloc(0),
  chain,
]: TlsContents): SecureContextOptions {
  const cert = chain === undefined ? certificate : `${certificate}\n${chain}`;
  return { cert, key, ...handshakeOptions };
}

/**
 * Watches the files of the certificate, and reads changed files within a minute.
 * @param contents - contents of the files that the server uses now
 */
export function renewTls(
  server: Server,
  tls: SaltApiTls,
  contents: TlsContents,
  log: Logger,
): FileReloader {
  const { certificate, renewalIntervalMs: intervalMs } = tls;
  return new FileReloader(
    {
      files: filesOf(tls),
      ...(intervalMs === undefined ? {} : { intervalMs }),
      apply: (renewed) => {
        if (server instanceof SecureServer) server.setSecureContext(secureContextOf(renewed));
      },
      onRenewed: () => log.info({ certificate }, 'certificate renewed'),
      onFailure: (error) =>
        log.error(
          { certificate, err: error },
          'cannot load the changed TLS certificate; the previous certificate remains in use',
        ),
    },
    contents,
  );
}

function filesOf({ certificate, key, chain }: SaltApiTls): string[] {
  return [certificate, key, ...(chain === undefined ? [] : [chain])];
}
