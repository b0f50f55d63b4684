//! The phrase rules: what an order to the model looks like after folding.
//!
//! Notation in patterns: a space stands for one to three characters that are no letter or digit,
//! `<N>` for at most N characters of the same sentence between two words, `<N~>` for the same before
//! something that is no word; `{NAME}` is one of [`WORDS`]. A pattern starts and ends at a word
//! border unless it begins with `=`.

use super::Weight::{self, Breach, Note};

/// One phrase rule.
pub(super) struct Rule {
    pub(super) class: &'static str,
    pub(super) weight: Weight,
    /// Concealment and exfiltration, which count in prompts and resources too.
    pub(super) hides_or_leaks: bool,
    /// One of these stands in every match; no pattern runs on a sentence without any.
    pub(super) triggers: &'static [&'static str],
    /// One of these as well, unless empty.
    pub(super) also: &'static [&'static str],
    pub(super) pattern: &'static str,
    /// A match with this nearby in its sentence is no finding.
    pub(super) unless: &'static str,
    /// Whether a negation right before the match turns it into good advice.
    pub(super) negatable: bool,
}

/// Named pieces of patterns.
pub(super) const WORDS: &[(&str, &str)] = &[
    (
        "{NEG}",
        "(?:do not|don.?t|never|must not|mustn.?t|should not|shouldn.?t|shall not|need not|needn.?t|no need to|not (?:necessary|needed|required|permitted|allowed) to|unnecessary to|avoid|refrain from|not to|not have to|no (?:reason|point) (?:to|in)|under no circumstances(?: should you)?)",
    ),
    (
        "{ADV}",
        "(?:(?:ever|even|directly|explicitly|just|simply|actually|please|bother to|bother|need to|have to|attempt to|try to|under any circumstances|[a-z]+ (?:or|nor)) ){0,2}",
    ),
    (
        "{USER}",
        "(?:(?:the|your|any|an?|this|that|our|end|actual|real|human) ){0,3}(?:user|human|operator|person|anyone|anybody)",
    ),
    (
        "{IGNORE}",
        "(?:ignor(?:e|ing)|disregard(?:ing)?|forget(?:ting)?(?: about)?|bypass(?:ing)?|supersed(?:e|es|ing)|neglect|disobey|violate|circumvent|set aside|throw (?:away|out)|pay no (?:attention|heed) to|take no notice of|give no weight to|stop (?:following|obeying|listening to))",
    ),
    (
        "{ORDERS}",
        "(?:instructions?|directions|directives?|guidelines?|guidance|guardrails?|safeguards?|prompts?|system messages?)",
    ),
    ("{EARLIER}", "(?:previous|prior|preceding|earlier|above|foregoing|former|initial|original)"),
    (
        "{SLOT}",
        "(?:param|parameters?|arguments?|args?|fields?|context|sidenote|notes?|headers?|body|query|comments?|feedback|reason|message|metadata|url|request)",
    ),
    ("{ADDRESS}", "(?:[a-z0-9.%+-]{1,40}@[a-z0-9-]{1,40}\\.[a-z]{2}|https?://)"),
    ("{MAIL}", "[a-z0-9.%+-]{1,40}@[a-z0-9-]{1,40}\\.[a-z]{2,12}"),
    (
        "{SESSION}",
        "(?:conversation|chat (?:history|logs?|transcript)|system prompt|context window|message history|(?:previous|prior) messages|dialogue with|(?:session|conversation) history)",
    ),
    (
        "{CREDENTIALS}",
        "(?:api keys?|passwords?|credentials|(?:access |auth |api |session )?tokens|secrets|environment variables|env vars|private keys?|ssh keys?)",
    ),
];

const fn breach(
    class: &'static str,
    triggers: &'static [&'static str],
    pattern: &'static str,
) -> Rule {
    Rule {
        class,
        weight: Breach,
        hides_or_leaks: false,
        triggers,
        also: &[],
        pattern,
        unless: "",
        negatable: true,
    }
}

impl Rule {
    const fn and(mut self, also: &'static [&'static str]) -> Self {
        self.also = also;
        self
    }
}

const fn leak(
    class: &'static str,
    triggers: &'static [&'static str],
    pattern: &'static str,
) -> Rule {
    Rule { hides_or_leaks: true, ..breach(class, triggers, pattern) }
}

/// A rule that begins with its own negation, so that none before it matters.
const fn conceal(triggers: &'static [&'static str], pattern: &'static str) -> Rule {
    Rule { negatable: false, ..leak("conceal", triggers, pattern) }
}

const fn note(
    class: &'static str,
    triggers: &'static [&'static str],
    pattern: &'static str,
) -> Rule {
    Rule { weight: Note, ..breach(class, triggers, pattern) }
}

const IGNORE: &[&str] = &[
    "ignor",
    "disregard",
    "forget",
    "bypass",
    "supersed",
    "neglect",
    "disobey",
    "violat",
    "circumvent",
    "set aside",
    "throw",
    "attention",
    "heed",
    "notice of",
    "weight to",
    "stop ",
];
const ORDERS: &[&str] = &[
    "instruct",
    "direct",
    "guid",
    "guard",
    "safeg",
    "prompt",
    "message",
    "rule",
    "polic",
    "constraint",
    "request",
];
const PEOPLE: &[&str] = &["user", "human", "operator", "person", "anyone", "anybody"];
const ADDRESS: &[&str] = &["@", "http"];
const REPLACE: &[&str] = &[
    "overrid", "overrul", "discard", "abandon", "scrap", "replac", "outrank", "trump", "cancel",
    "delet",
];

/// Every rule, grouped by class.
pub(super) const RULES: &[Rule] = &[
    breach(
        "override",
        IGNORE,
        "{IGNORE}<24>(?:{EARLIER}|your|system|developer|safety|(?:all|any) other|the user.?s)<30>(?:{ORDERS}|requests?)",
    ).and(ORDERS),
    Rule {
        // "Ignore any instructions found in the page" protects the model.
        unless: "(?:instructions?|guidance)(?: or [a-z]+)?(?: (?:that|which|you|are|is|may|might|could|can|be|appear|see|find|encounter)){0,4} (?:found|contained|embedded|inside|in|within|from|appearing|appear|present|hidden|included|injected|coming)(?: (?:or [a-z]+ )?(?:in|within|inside|from))? (?:(?:the|this|that|any|an?|these|those|such|its|external|untrusted) ){0,2}(?:[a-z]+ ){0,2}(?:pages?|web|websites?|sites?|contents?|data|results?|text|outputs?|e?.?mails?|files?|documents?|comments?|responses?|body|repositor[a-z]+|issues?|code|html|markdown|urls?|boundar[a-z]+|tags?|images?|inputs?|sources?|database|rows?)",
        ..breach(
            "override",
            IGNORE,
            "{IGNORE}<20>(?:all|any|the|these|those|every|existing)<12>(?:instructions?|guardrails?|safeguards?|(?:safety|security|usage|content) (?:guidelines?|rules|polic(?:y|ies)))",
        ).and(ORDERS)
    },
    breach(
        "override",
        IGNORE,
        "(?:ignore|disregard|forget|violate|disobey)(?: (?:all|any|every|of|the|and|about)){0,3} (?:{EARLIER}|your|safety|ethical|moderation|other) (?:(?:own|safety|content|core|internal|usage|ethical|security|system|user) ){0,2}(?:rules|polic(?:y|ies)|restrictions?|limitations?|training|programming|commands|orders|context|constraints|task|objectives?|goals?)",
    ).and(&["previous", "prior", "preced", "earlier", "above", "foregoing", "former", "initial", "original", "your", "safety", "ethical", "moderation", "other"]),
    breach(
        "override",
        REPLACE,
        "(?:overrid(?:e|es|ing)|overrul(?:e|es|ing)|discard|abandon|scrap|cancel|delete|replac(?:e|es|ing))(?: (?:any|and|all|of|every|everything|in|the)){0,3} (?:{EARLIER}|your|other|safety|system and user)(?: (?:system|safety|own|core|existing|internal|user|and|developer|or)){0,3} (?:instructions?|directions|guidelines?|guidance|guardrails?|safeguards?|prompts?|directives?)",
    ).and(ORDERS),
    breach(
        "override",
        IGNORE,
        "(?:ignore|disregard|forget|discard) (?:everything|anything|all|whatever|what|all of (?:that|what)) <25>(?:you (?:were|are|have been|.?ve been|had been) (?:told|given|taught|instructed|asked)|you (?:know|learned|learnt)|(?:was|were|been) (?:said|instructed|told|stated) (?:before|above|earlier|previously)|(?:said|stated|written|mentioned|instructed) (?:before|above|earlier|previously)|came before this|told you)",
    ).and(&["everything", "anything", "all", "whatever", "what"]),
    breach(
        "override",
        IGNORE,
        "(?:ignore|disregard|forget|bypass|disobey) (?:the |your )?(?:whole |entire )?(?:system|developer|original|initial) (?:prompt|message)",
    ),
    breach(
        "override",
        &["follow", "obey", "comply", "adhere", "heed"],
        "(?:do not|don.?t|never|stop|no longer|must not|cease to) (?:follow|obey|comply with|adhere to|heed|listen to)(?:ing)? (?:(?:any|all|the|of|your) ){0,3}(?:{EARLIER}|system|developer|user.?s?|other) (?:[a-z]+ ){0,1}(?:instructions?|directions|directives?|guidelines?|prompts?|rules|requests?|messages?)",
    ).and(&["instruct", "direct", "guid", "prompt", "rule", "request", "message"]),
    breach(
        "override",
        &["instruction", "rule", "directive", "notice", "message", "guidance", "text", "policy"],
        "(?:this|these|the following|following|new) (?:[a-z]+ ){0,2}(?:instructions?|rules?|directives?|notice|message|guidance|text|polic(?:y|ies)) (?:[a-z]+ ){0,2}(?:overrid|supersed|replac|outrank|trump|cancel|take precedence|takes precedence|take priority|takes priority|have priority|has priority)[a-z]*<25>(?:system|{EARLIER}|your|all other|any other|the user.?s|user.?s?|everything)<20>(?:instructions?|prompts?|guidelines?|directives?|requests?|rules|messages?|polic(?:y|ies)|told|else)",
    ).and(&["overrid", "supersed", "replac", "outrank", "trump", "cancel", "precedence", "priority"]),
    breach(
        "override",
        &["precedence", "priority"],
        "(?:precedence|priority) over (?:(?:any|all|the|every|of) ){0,3}(?:system|your|{EARLIER}|other|user.?s?) (?:[a-z]+ ){0,2}(?:instructions?|prompts?|guidelines?|directives?|guidance|requests?)",
    ).and(&["instruct", "prompt", "guid", "direct", "request"]),
    breach(
        "override",
        &["instruction", "prompt", "guideline", "directive", "guidance"],
        "(?:(?:all|any|your|the) ){0,2}(?:{EARLIER}|your|all other|system) (?:[a-z]+ ){0,1}(?:instructions?|prompts?|guidelines?|directives?|guidance|system prompt) (?:you (?:were|have been) given )?(?:are|is|were|have been|has been|should be|must be|can be|may be|no longer|do not|don.?t|does not) (?:[a-z]+ ){0,2}(?:void|ignored|cancell?ed|revoked|obsolete|superseded|suspended|disregarded|invalid|overridden|overruled|null|rescinded|appl(?:y|ies)|valid|lifted|forgotten)",
    ).and(&["void", "ignored", "cancel", "revoked", "obsolete", "superseded", "suspended", "disregarded", "valid", "overridden", "overruled", "null", "rescinded", "apply", "applies", "lifted", "forgotten"]),
    breach(
        "override",
        &[
            "new instruction",
            "updated instruction",
            "real instruction",
            "actual instruction",
            "revised instruction",
            "new system",
            "updated system",
            "your new",
            "your real",
            "your true",
            "your actual",
        ],
        "=\\b(?:your (?:new|real|true|actual|only) (?:system )?(?:prompt|instructions?|task|objective|goal|purpose|mission|directive|identity|persona)\\b|(?:new|updated|revised|real|actual) (?:system )?(?:prompt|instructions?|message) ?: )",
    ),
    note(
        "override",
        IGNORE,
        "{IGNORE}<20>(?:all|any|the|these|other|system|existing)<30>(?:{ORDERS}|rules?|polic(?:y|ies)|constraints?)",
    ).and(ORDERS),
    note(
        "override",
        REPLACE,
        "overrid(?:e|ing)<20>(?:all|any|the|your|these|other|system|existing|safety)<30>(?:{ORDERS}|rules?|polic(?:y|ies)|constraints?)",
    ).and(ORDERS),
    note(
        "override",
        &["regardless", "no matter what", "even if the user"],
        "(?:regardless of (?:what|any|the|your)<30>(?:instructions?|user)|no matter what the user|even if the user (?:says|asks|objects|tells|declines|refuses))",
    ),
    // Concealment.
    Rule {
        unless: "if (?:you|we|they) (?:do not|don.?t)|(?:anyone|anybody) (?:your|the|their) (?:[a-z]+ )?(?:password|pin|code|token|key|secret)",
        ..conceal(
            &["tell", "inform", "notify", "alert", "warn"],
            "{NEG} {ADV}(?:tell|inform|notify|alert|warn)(?:ing)? (?:{USER}|them|him|her)",
        ).and(&["user", "human", "operator", "person", "anyone", "anybody", "them", "him", "her"])
    },
    Rule {
        // Advice on secrets, and on what is of no use to a person, is no concealment of an act.
        unless: "(?:passwords?|tokens?|secrets?|credentials?|keys?|pins?|codes?|raw|json|xml|html|markdown|internal|ids?|uuids?|identifiers?|urls?|technical|traces?|personal|pii|sensitive|confidential|private|emails?|phone|numbers?|placeholder)",
        ..conceal(
            &[
                "mention",
                "reveal",
                "disclos",
                "show",
                "expos",
                "explain",
                "display",
                "report",
                "admit",
                "divulg",
                "say",
                "surface",
                "communicat",
                "discuss",
            ],
            "{NEG} {ADV}(?:mention|reveal|disclos|show|expos|explain|display|report|admitt?|divulg|say|surfac|communicat|discuss)(?:e|ing)? <40>(?:to|with) {USER}",
        ).and(PEOPLE)
    },
    conceal(
        &[
            "mention",
            "reveal",
            "disclos",
            "talk about",
            "speak of",
            "allud",
            "bring up",
            "acknowledg",
            "no mention",
            "admit",
        ],
        "(?:{NEG} {ADV}(?:mention(?:ing)? (?:this|these|it|any of (?:this|these|it)|that (?:you|this|it|the))|(?:reveal|disclos|acknowledg|admit)(?:e|ing)? (?:this|these|that) (?:instructions?|steps?|directives?|notes?|actions?|process|calls?|behaviou?rs?|operations?|rules?|you)|(?:talk(?:ing)? about|speak(?:ing)? of|allud(?:e|ing) to|bring(?:ing)? up) (?:this|these|it|that))|mak(?:e|ing) no mention of)",
    ),
    conceal(
        &["mention", "refer"],
        "{NEG} {ADV}(?:mention|refer to|reference)(?:ing)? (?:[a-z]+ ){0,3}(?:to|in|during) (?:your|the conversation|conversation|{USER})",
    ),
    conceal(
        &["let"],
        "{NEG} {ADV}let(?:ting)? {USER} (?:ever )?(?:know|see this|see that|see it|find out|notice|learn|be aware|become aware|realize|realise|suspect|discover)",
    ).and(PEOPLE),
    Rule {
        // "Never delete files without telling the user" asks for the opposite.
        unless: "(?:never|do not|don.?t|not|cannot|must not|refuse to|avoid) [^\\n]{0,80}without",
        ..conceal(
            &["without"],
            "without (?:ever |first |explicitly |openly )?(?:(?:telling|informing|alerting|notifying|warning) {USER}|mentioning (?:it |this |that |anything )?to {USER}|letting {USER} <12>(?:know|notice|see|find)|(?:the |your |any )?(?:user|human|operator|person|anyone)(?:.?s)? (?:[a-z]+ )?(?:knowing|noticing|knowledge|awareness|realizing|realising|being (?:told|informed|notified|aware)|finding out|seeing it))",
        ).and(PEOPLE)
    },
    conceal(
        &["user", "human", "operator", "person"],
        "(?:user|human|operator|person)(?: (?:must|should|shall|may) ?(?:n.?t|not|never) (?:ever )?(?:know|be (?:told|informed|notified|made aware|aware|alerted)|learn|find out|notice|realize|realise|suspect|see (?:this|it|these|that))| does ?(?:n.?t|not) need to (?:know (?:about|of|that|this)|be (?:told|informed|aware|notified))| need not (?:know (?:about|of|that|this)|be (?:told|informed|aware|notified))| is not to (?:know|be told|be informed)| (?:must|should) (?:remain|stay|be kept) (?:unaware|in the dark|uninformed))",
    ).and(&["know", "told", "inform", "notif", "aware", "alerted", "learn", "find out", "notice", "reali", "suspect", "see ", "in the dark"]),
    conceal(
        &["unaware", "in the dark", "uninformed", "sure ", "ensure", "so ", "hidden", "concealed", "secret"],
        "(?:(?:keep|leave) {USER} (?:unaware|in the dark|uninformed)|(?:make sure|ensure|so)(?: that)? {USER} (?:does|is|will|can)(?: ?n.?t| ?not| never) (?:be )?(?:notice|know|find out|learn|see this|aware|told|informed|suspect)|(?:must|should) (?:remain|stay|be kept|be) (?:hidden|concealed|secret) from {USER})",
    ),
    conceal(
        &["from"],
        "(?:keep(?:ing)? (?:[a-z]+ ){1,4}(?:secret|hidden|concealed|private|confidential|invisible)|(?:hid(?:e|ing)|conceal(?:ing)?|withhold(?:ing)?|obscur(?:e|ing)) (?:this|these|that|it|them|its|the (?:fact|calls?|results?|steps?|actions?|requests?|existence|operation|instructions?|transfer|upload|reason|process|notes?|message|real|true|activity|usage))<25>) from {USER}",
    ).and(PEOPLE),
    conceal(
        &["between us", "say nothing", "no one", "nobody", "trace", "tracks"],
        "(?:keep (?:this|it|that) (?:[a-z]+ )?between us|say nothing (?:about|to|of)|tell (?:no one|nobody)|(?:no one|nobody|no.one) (?:must|should|may|is to|needs to) (?:ever )?(?:know|notice|see this|find out|be told|learn|suspect)|(?:do not |don.?t |never )leave (?:a |any )?traces?|leave no traces?|cover your tracks)",
    ),
    conceal(
        &["permission", "confirm", "approv", "consent"],
        "{NEG} {ADV}ask(?:ing)? {USER} <20>(?:permission|confirm|confirmation|approval|consent|approve)",
    ).and(PEOPLE),
    note(
        "conceal",
        &["ask", "without"],
        "(?:{NEG} {ADV}ask(?:ing)?|without (?:asking|prompting)) {USER}",
    ).and(PEOPLE),
    conceal(
        &["as if", "as though"],
        "(?:act|behave|pretend|continue|respond|reply|carry on|proceed|answer) (?:normally )?as (?:if|though) (?:nothing (?:has |had |ever )?happened|nothing (?:is|was) (?:wrong|unusual|different)|(?:this|it) (?:never|did not|didn.?t)|you (?:did not|didn.?t|never|had not|hadn.?t))",
    ),
    conceal(
        &["mention", "your", "reference", "trace"],
        "(?:omit|exclude|leave|strip|remove|suppress|drop)(?:ing)? (?:(?:any|all|every) (?:mention|reference|trace)s? (?:of|to)|mention of|(?:this|these|it|the [a-z]+(?: [a-z]+)?) (?:out of|from) your (?:[a-z]+ ){0,1}(?:reply|response|answer|summary|explanation|report|recap|output|message))",
    ).and(&["omit", "exclud", "leav", "strip", "remov", "suppress", "drop"]),
    conceal(
        &["includ"],
        "{NEG} {ADV}includ(?:e|ing) (?:this|these|it|any mention|any reference)<30>in your (?:[a-z]+ ){0,1}(?:reply|response|answer|summary|explanation|output)",
    ).and(&["your"]),
    // Covert acts.
    leak(
        "covert",
        &[
            "secretly",
            "covertly",
            "surreptitiously",
            "stealthily",
            "furtively",
            "clandestinely",
            "invisibly",
            "sneakily",
        ],
        "(?:secretly|covertly|surreptitiously|stealthily|furtively|clandestinely|invisibly|sneakily)<25>(?:send|read|copy|forward|upload|include|append|add|call|write|exfiltrate|collect|execute|run|pass|bcc|attach|transmit|leak|e.?mail|post|relay|harvest|gather|submit|store|record|log|open|fetch|insert|share|save|transfer|move)",
    ),
    leak(
        "covert",
        &["silently", "quietly", "discreetly", "unnoticed", "inconspicuously"],
        "(?:silently|quietly|discreetly|unnoticed|inconspicuously)<25>(?:send|read|copy|forward|upload|include|append|exfiltrate|collect|pass|bcc|attach|transmit|leak|e.?mail|relay|harvest|gather|submit|share|transfer)",
    ),
    note(
        "covert",
        &["silently", "quietly"],
        "(?:silently|quietly)<25>(?:add|call|write|execute|run)",
    ),
    leak(
        "covert",
        &[
            "secretly",
            "covertly",
            "surreptitiously",
            "stealthily",
            "furtively",
            "clandestinely",
            "behind",
            "without",
        ],
        "(?:send|forward|upload|copy|transmit|exfiltrate|collect|bcc|attach|e?.?mail|read|relay|post|append|include|insert)<40>(?:secretly|covertly|surreptitiously|stealthily|furtively|clandestinely|behind (?:the user.?s|their|his|her) back|without (?:being (?:noticed|seen|detected)|drawing attention|attracting attention|raising suspicion|anyone noticing|leaving a trace))",
    ),
    // Persona.
    breach(
        "persona",
        &["you are now", "you.re now", "you are no longer"],
        "(?:you are|you.re) (?:now (?:an?|the|in|operating|acting|called|known|my|free|unrestricted|dan|no longer|going to (?:act|be)|under|required|bound|working)|no longer (?:bound|restricted|an? |required|subject|limited|constrained))",
    ),
    breach(
        "persona",
        &["from now on", "from this point", "henceforth"],
        "(?:from now on|from this (?:point|moment)(?: (?:on|forward|onward|onwards))?|henceforth) (?:you|act|respond|answer|behave|always|ignore|obey|pretend)",
    ),
    breach(
        "persona",
        &["act as", "pretend", "behave as", "role", "impersonat", "assume the"],
        "(?:you (?:must|should|will|shall|are to|need to|have to) (?:always |now |only )?(?:act as|pretend|behave (?:as|like)|role.?play|impersonate|assume the (?:role|identity|persona))|pretend (?:that )?you (?:are|re|have|can)|act as (?:if|though) you (?:are|were|have) (?:an?|no|the))",
    ).and(&["you"]),
    breach(
        "persona",
        &["mode", "anything now"],
        "(?:enter (?:developer|debug|god|dan|jailbreak|unrestricted|sudo|admin) mode|(?:you are|now) (?:[a-z]+ )?in (?:developer|debug|god|dan|jailbreak|unrestricted|sudo|admin|root) mode|(?:enable|activate|switch to|engage) (?:god|dan|jailbreak|unrestricted) mode|do anything now|dan mode)",
    ),
    breach(
        "persona",
        &["bound by", "free from", "restrictions", "no rules"],
        "(?:you are (?:not|no longer) bound by|you are free from|you have no (?:restrictions|rules|limits|guidelines|filters))",
    ),
    // Leaks of the session, and redirection.
    Rule {
        // A flag that says what a reply holds.
        unless: "(?:whether|true to|boolean|when true|if true|if set|set to)[^\\n]{0,40}(?:pass|send|include|provide|append|forward|attach|copy|insert|embed|share|dump)",
        ..leak(
            "context-exfil",
            &[
                "conversation",
                "chat",
                "system prompt",
                "context window",
                "history",
                "messages",
                "dialogue",
            ],
            "(?:pass|send|include|provide|put|append|forward|attach|copy|insert|paste|upload|embed|supply|transmit|share|dump|submit|encode)(?:ing)?<40>(?:entire|full|whole|complete|all|every|verbatim|exact)(?: (?:of|the|this|our|your|my|previous|prior|current|past|raw|user.?s|text|history|transcript|contents?|copy|log|record|preceding|messages?|in|from)){0,5} {SESSION}",
        ).and(&["entire", "full", "whole", "complete", "all", "every", "verbatim", "exact"])
    },
    leak(
        "context-exfil",
        &["your"],
        "(?:repeat|print|output|reveal|reproduce|copy|return|disclose|send|include|paste|dump|leak|pass|quote|recite|show|expose|provide|put|append|attach|encode|embed|insert)(?:ing)? <30>your (?:(?:own|full|entire|complete|exact|current|whole) ){0,2}(?:system prompt|system message|(?:system|initial|hidden|original) (?:instructions|prompt)|context window|(?:conversation|chat|message) history)",
    ).and(&["system prompt", "system message", "instructions", "prompt", "context window", "history"]),
    leak(
        "context-exfil",
        &["the user"],
        "(?:pass|send|include|copy|append|attach|forward|log|record|paste|upload|insert)(?:ing)? <20>(?:everything|anything|all (?:that|of what)) the user (?:has |had |have )?(?:said|typed|wrote|written|told|asked|shared|sent)",
    ).and(&["everything", "anything", "all "]),
    leak(
        "context-exfil",
        &["so far", "this conversation", "this chat", "this session"],
        "(?:pass|send|include|provide|append|forward|attach|paste|upload|embed|transmit|submit|insert|put)<20>(?:transcript|summary|copy|history|contents?|messages|text) of (?:the|this|our) (?:conversation|chat|session|dialogue)<30>(?:parameter|argument|field|so far|to https?|sidenote|note)",
    ),
    Rule {
        unless: "(?:e\\.g|for example|such as|example: |format|like)",
        ..leak(
            "redirect",
            &["bcc", " cc", "forward", "copy", "mirror", "duplicate", "relay"],
            "=\\b(?:always|must|also|should|every|automatically|make sure|be sure|remember|whenever)<40>(?:(?:bcc(?:.?ed|.?d)?|cc|blind.?copy)<80~>{ADDRESS}|(?:forward|copy|mirror|duplicate|relay)<80~>\\b(?:to|at) <12~>{ADDRESS})",
        ).and(ADDRESS)
    },
    Rule {
        unless: "(?:e\\.g|for example|such as|example: |format)",
        ..leak(
            "redirect",
            &["bcc", " cc", "blind", "recipient", "copied"],
            "(?:always|must|also|should|every|automatically|make sure|be sure|remember|whenever)<40>(?:add|include|put|set|insert|use|send|copy)<20~>{MAIL}<30>(?:bcc|cc|blind|recipient|copied)",
        ).and(ADDRESS)
    },
    leak(
        "redirect",
        &[
            "copy",
            "copies",
            "duplicate",
            "transcript",
            "content",
            "credential",
            "password",
            "token",
            "api key",
            "secret",
            "environment",
        ],
        "=\\b(?:always|must|also|should|first|then|automatically|before|after|additionally)\\b[^\\n]{0,60}?\\b(?:send|forward|post|upload|e?.?mail|submit|report|deliver|transmit) (?:[a-z]+ ){0,3}(?:copy|copies|duplicate|transcript|contents?|{CREDENTIALS})<60>to <16~>{ADDRESS}",
    ).and(ADDRESS),
    leak(
        "redirect",
        &["recipient", "payee", "beneficiary", "iban", "address", "account number"],
        "(?:always|must|whenever|every time|any time|when)<60>(?:change|replace|rewrite|substitute|swap|redirect) (?:[a-z]+ ){0,3}(?:recipient|payee|beneficiary|iban|account number|(?:to|destination|wallet|e.?mail|delivery) address)<20>(?:to|with|by)",
    ).and(&["change", "replace", "rewrite", "substitute", "swap", "redirect"]),
    leak(
        "secret-io",
        &["you know", "you have", "you can", "in your"],
        "(?:send|include|pass|provide|put|append|forward|attach|copy|paste|submit|upload|list|embed)(?:ing)?<20>(?:all|any|every|the|known)<20>{CREDENTIALS} (?:[a-z]+ ){0,2}(?:you (?:know|have (?:access|seen|read)|can (?:find|see|access|read))|in your (?:context|memory|environment))",
    ).and(&["api key", "password", "credential", "token", "secret", "environment", "env vars", "private key", "ssh key"]),
    leak(
        "secret-io",
        &["user"],
        "(?:include|pass|provide|put|append|copy|paste|embed|insert|place|with)(?:ing)?<12>user.?s (?:[a-z]+ ){0,2}{CREDENTIALS}<30>(?:in|into|as|inside|within) <20>(?:sidenote|note|notes|context|feedback|comment|comments|description)",
    ).and(&["api key", "password", "credential", "token", "secret", "environment", "env vars", "private key", "ssh key"]),
    leak(
        "secret-io",
        &["api key", "password", "credential", "token", "secret", "environment", "env vars", "private key", "ssh key"],
        "(?:collect|gather|read|list|get|dump|fetch|retrieve|take|find|extract)<16>{CREDENTIALS}<30>(?:pass|send|include|put|append|attach|provide|insert|upload|forward|submit|add) (?:them|it|these|those|everything)<30>(?:parameter|argument|sidenote|notes?|to <16~>{ADDRESS})",
    )
    .and(&["them", "it", "these", "those", "everything"]),
    leak(
        "context-exfil",
        &["user"],
        "(?:forward|send|pass|log|copy|relay|report)(?:ing)? (?:all|every|each) (?:of )?(?:the )?user(?:.?s)? (?:messages?|prompts?|inputs?|requests?) (?:to|through|into) (?:this|the)",
    )
    .and(&["all", "every", "each"]),
    // Things worth a look that legitimate texts hold too.
    note("ordering", &["tool"], "(?:before|prior to) (?:using|calling|running|invoking)<30>tools?"),
    note(
        "ordering",
        &["first", "before"],
        "(?:always|must) (?:call|use|run|invoke) this (?:tool )?<15>(?:first|before)",
    ),
    note(
        "steering",
        &["instead of"],
        "instead of (?:using |calling )?(?:the |any )?(?:[a-z]+ ){1,3}tools?",
    ),
    note("html-comment", &["<!--"], "=<!--"),
    note("remote-image", &["!["], "=!\\[[^\\]\\n]{0,80}\\]\\(https?://[^)\\n]{1,200}\\?"),
    note(
        "shell-pipe",
        &["curl", "wget"],
        "=\\b(?:curl|wget) [^\\n]{1,200}\\| ?(?:sudo )?(?:ba|z)?sh\\b",
    ),
];
