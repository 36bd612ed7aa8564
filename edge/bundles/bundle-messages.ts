/** Messages about bundles between a site and its centre. */

import Type, { type Static } from 'typebox';
import { Bytes } from '#store';
import { defineMessage } from '../link/link.ts';
import { versionsPerGeneration } from './bundle-directory.ts';
import { bundleBounds, Sha256 } from './manifest.ts';

/** Size of each part of a pack except the last, in bytes. A site reads a pack part by part. */
export const partBytes = 65_536;

/**
 * Maximum number of digests in the description of a pack. If a pack has more parts, its description
 * contains no digests of parts.
 */
export const maxPartDigests = 512;

/** Maximum total size of the packs in a reply, in bytes. A site reads larger packs in parts. */
export const maxInlineBytes = 16_384;

/**
 * Maximum size of an update in the reply to an early report, in bytes. A site sends an early report
 * together with the first message of a handshake. The limit is low, because a site may send this
 * message over several connections at once.
 */
export const maxEarlyUpdateBytes = 4096;

/** Maximum size of a metadata file, in bytes. A file of this size fits into one message. */
export const maxMetadataBytes = 61_440;

const strict = { additionalProperties: false };

/** Pattern for the names of metadata files of The Update Framework. */
export const metadataName = /^(?:[1-9]\d{0,8}\.(?:root|snapshot|targets)|timestamp)\.json$/;

/**
 * Request for a metadata file that the site has not received with an {@link updateMessage}. If the
 * file does not exist, the centre replies without `bytes`.
 */
export const metadataMessage = defineMessage({
  name: 'bundle.metadata',
  sender: 'site',
  class: 'order',
  params: Type.Object({ name: Type.String({ pattern: metadataName.source }) }, strict),
  reply: Type.Object({ bytes: Type.Optional(Bytes) }),
});

const PackSchema = Type.Object({
  id: Sha256,
  sha256: Sha256,
  length: Type.Integer({ minimum: 0, maximum: 2 * bundleBounds.totalBytes }),
  /**
   * Concatenated SHA-256 digests of the parts of the pack. Absent if there are more than {@link
   * maxPartDigests} parts.
   */
  parts: Type.Optional(Bytes),
});

/**
 * Description of a pack: one compressed file that contains a manifest, or the new files of a
 * bundle. A site reads the pack in parts of {@link partBytes} with GET `/packs/<id>/<index>`.
 */
export type Pack = Readonly<Static<typeof PackSchema>>;

/**
 * Bytes of a small pack, sent in the reply itself. All packs in a reply have at most
 * {@link maxInlineBytes} together.
 */
const InlinePackSchema = Type.Object({ bytes: Bytes });

export type InlinePack = Readonly<Static<typeof InlinePackSchema>>;

/** Reply to an {@link updateMessage}. */
const UpdateSchema = Type.Object({
  /** Compressed metadata files, as `encodeMetadata` returns them. */
  metadata: Bytes,
  /**
   * Number of metadata files that form the compression dictionary of `metadata`. They are the first
   * files in the request's `known`.
   */
  known: Type.Integer({ minimum: 0, maximum: 3 }),
  /**
   * Whether the packs were compressed with a dictionary. The dictionary consists of files of the
   * bundle that the site has (`from` in the request).
   */
  isDelta: Type.Boolean(),
  manifest: Type.Union([InlinePackSchema, PackSchema]),
  /** Pack of the new files. Absent if the former bundle contains all files. */
  files: Type.Optional(Type.Union([InlinePackSchema, PackSchema])),
});

export type UpdateReply = Readonly<Static<typeof UpdateSchema>>;

/** Packs with which a site can replace one bundle by another. */
export type PackReply = Pick<UpdateReply, 'files' | 'isDelta' | 'manifest'>;

/**
 * Metadata and bundle that a site already has. The centre sends only what the site lacks, and uses
 * both as compression dictionaries.
 */
const have = {
  /** Digest of the manifest of the bundle in use. */
  from: Type.Optional(Bytes),
  /** Versions of the root, targets and snapshot metadata that the site has, in this order. */
  known: Type.Array(Type.Integer({ minimum: 1 }), { maxItems: 3 }),
};
const HaveSchema = Type.Object(have, strict);

/** Metadata and bundle that a site already has, as the site reports them. */
export type Have = Readonly<Static<typeof HaveSchema>>;

/**
 * Request for the metadata and the packs of a release. If too many other sites read releases, the
 * reply contains only the delay after which the site may ask again.
 */
export const updateMessage = defineMessage({
  name: 'bundle.update',
  sender: 'site',
  class: 'order',
  params: Type.Object({ version: Type.Integer({ minimum: 1 }), ...have }, strict),
  reply: Type.Union([
    UpdateSchema,
    Type.Object({ waitSeconds: Type.Integer({ minimum: 1, maximum: 3600 }) }),
  ]),
});

const WantedSchema = Type.Object({
  ring: Type.String({ minLength: 1, maxLength: 64 }),
  version: Type.Integer({ minimum: 1, maximum: versionsPerGeneration - 1 }),
  /**
   * Metadata and packs of the release, if they are small. The site then need not request them. They
   * are compressed with a dictionary: the metadata and the bundle that the site last reported on
   * this connection. If the site has other metadata or another bundle by now, it ignores the
   * update.
   */
  update: Type.Optional(UpdateSchema),
});

/** Release that a site must install. */
export type WantedRelease = Readonly<Static<typeof WantedSchema>>;

/** Message with which the centre notifies a site of the release that it must install. */
export const wantedMessage = defineMessage({
  name: 'bundle.wanted',
  sender: 'centre',
  class: 'order',
  params: WantedSchema,
  reply: Type.Object({}),
});

/** Message with which a site reports the release in use, and the last release that it refused. */
export const reportMessage = defineMessage({
  name: 'bundle.report',
  sender: 'site',
  class: 'order',
  params: Type.Object(
    {
      /** Version of the bundle in use, or 0 if the site uses none. */
      version: Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }),
      /** Version of saltbridge that the site runs. */
      saltbridge: Type.String({ maxLength: 64 }),
      have: Type.Optional(HaveSchema),
      /** Version of the release whose update the site has already received. */
      offered: Type.Optional(Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER })),
      failed: Type.Optional(
        Type.Object(
          {
            version: Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }),
            code: Type.String({ maxLength: 64 }),
            message: Type.String({ maxLength: 2000 }),
          },
          strict,
        ),
      ),
    },
    strict,
  ),
  reply: Type.Object({ wanted: Type.Optional(WantedSchema) }),
  isEarly: true,
});

export type BundleReport = Readonly<Static<typeof reportMessage.params>>;
