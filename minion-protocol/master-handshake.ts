/**
 * Parses sign-in requests (`_auth`) for the master [WIRE 6; salt/channel/server.py
 * ReqServerChannel._auth]. This module does no I/O. The caller decides about the key and stores it.
 */

import { type AuthReplyContext, type AuthRequest, badAlgorithmReply } from './auth-reply.ts';
import type { ProtocolErrorCode } from './errors.ts';
import { parseAuthLoad } from './loads.ts';
import { packWire } from './payload.ts';
import { type ClearEnvelope, isNonce, isValidMinionId } from './request.ts';
import {
  defaultEncryptionAlgorithm,
  defaultSigningAlgorithm,
  isEncryptionAlgorithm,
  isSigningAlgorithm,
} from './rsa.ts';

/** Result of {@link parseAuthRequest}. */
export type ParsedAuthRequest =
  | { readonly ok: true; readonly request: AuthRequest }
  | {
      readonly ok: false;
      readonly code: ProtocolErrorCode;
      /** Packed reply to send. */
      readonly reply: Buffer;
    }
  | {
      readonly ok: false;
      readonly code: 'ERR_BAD_ID';
      /**
       * Data from which {@link buildRefusal} builds the reply. The content of the reply must be
       * `false`. From protocol version 2 on, the reply must also be signed.
       */
      readonly refuse: AuthReplyContext;
    };

/** Parses a sign-in request. Never throws and performs no RSA operation. */
export function parseAuthRequest(envelope: ClearEnvelope): ParsedAuthRequest {
  const { version } = envelope;
  const load = parseAuthLoad(envelope.load);
  if (!load) return { ok: false, code: 'ERR_BAD_LOAD', reply: packWire('bad load') };
  const { id, nonce, pub, token, autosignGrains } = load;
  if (version >= 2 && !isNonce(nonce)) {
    return { ok: false, code: 'ERR_NONCE', reply: packWire('bad load') };
  }
  const { enc_algo: encAlgo = defaultEncryptionAlgorithm } = load;
  const { sig_algo: sigAlgo = defaultSigningAlgorithm } = load;
  if (!isEncryptionAlgorithm(encAlgo)) return badAlgorithm('enc');
  if (!isSigningAlgorithm(sigAlgo)) return badAlgorithm('sig');
  const context = { version, nonce: version >= 2 ? nonce : undefined, sigAlgo };
  if (!isValidMinionId(id)) return { ok: false, code: 'ERR_BAD_ID', refuse: context };
  return { ok: true, request: { ...context, id, pub, encAlgo, token, autosignGrains } };
}

function badAlgorithm(which: 'enc' | 'sig'): ParsedAuthRequest {
  return { ok: false, code: 'ERR_ALGORITHM', reply: badAlgorithmReply(which) };
}
