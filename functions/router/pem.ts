// PEM, read: the blocks of a text, whatever stands around them (bag attributes, comments, blank lines, indentation).

export interface PemBlock {
  /** What stands after BEGIN: `CERTIFICATE`, `RSA PRIVATE KEY`. */
  readonly label: string;
  readonly der: Buffer;
  /** Encrypted in the old way, by headers within the block (`Proc-Type: 4,ENCRYPTED`). */
  readonly encrypted: boolean;
}

/** The blocks in their order; null when one of them does not end or is not base64. */
export function readPem(text: string): PemBlock[] | null {
  const blocks: PemBlock[] = [];
  const begin = /-----BEGIN ([A-Z0-9 ]{1,40})-----/g;
  for (let match = begin.exec(text); match !== null; match = begin.exec(text)) {
    const [, label = ''] = match;
    const end = `-----END ${label}-----`;
    const at = text.indexOf(end, begin.lastIndex);
    const block = at === -1 ? null : readBlock(label, text.slice(begin.lastIndex, at));
    if (block === null) return null;
    blocks.push(block);
    begin.lastIndex = at + end.length;
  }
  return blocks;
}

function readBlock(label: string, body: string): PemBlock | null {
  if (label === 'COMMENT') return { label, der: Buffer.alloc(0), encrypted: false };
  if (body.includes('Proc-Type:')) return { label, der: Buffer.alloc(0), encrypted: true };
  const base64 = body.replace(/\s+/g, '');
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(base64)) return null;
  return { label, der: Buffer.from(base64, 'base64'), encrypted: false };
}
